"""Files that an arm fetches from storage, and the next one finds in memory.

The first to read a file waits for the disk, and those that come after it do not: that would count
for or against whichever arm came first. So an arm that fetched much is run again at once, with the
files in memory now, and the first one is not counted. Where the second fetches as much, the files
do not fit into memory, and that is how the job runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.process_tree import fetched_bytes

COLD_BYTES_S = 1e6
"""what a hard disk brings of files of 10 kB, at its hundred reads a second, is all its time: an arm
that fetches less in each second of its steps hardly waits for storage"""
LESS = 0.5
"""the second run must fetch less than this share of the first, to count in its place"""
STREAMS = "files come from storage in every run, not from memory"


def run_warm(run: Callable[[], ArmResult], notes: Sequence[str]) -> tuple[ArmResult, str]:
    """An arm whose files are in memory, as far as they fit, and what is to be told of it; ``notes``
    are what has been told before."""
    ran = run()
    first = fetch_rate(ran)
    if first < COLD_BYTES_S or STREAMS in notes or not ran.is_comparable:
        return ran, ""
    again = run()
    if not again.is_comparable or fetch_rate(again) >= LESS * first:
        return again, STREAMS
    return again, (
        f"files came from storage in one run ({first / 1e6:.0f} MB/s), which is not counted: times "
        "are those with files in memory"
    )


def fetch_rate(ran: ArmResult) -> float:
    """Bytes that it fetched in each second of its steps."""
    if ran.told is None or len(ran.told.marks) < 2:
        return 0.0
    begin, end = ran.told.marks[0], ran.told.marks[-1]
    return fetched_bytes(ran.samples, begin, end) / max((end - begin) / 1e9, 1e-3)
