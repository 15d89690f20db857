"""Repeats an arm that read its files from storage, so that the page cache favours no arm.

The first arm to read a file waits for the disk, later ones find it in the page cache. An arm with
much disk reading is therefore run again, and the first run is discarded. If the second run reads as
much, the files do not fit into memory, and the job always runs like that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_tree import fetched_bytes

COLD_BYTES_S = 1e6
"""rate below which storage hardly delays steps; a hard disk reads 10 kB files no faster"""
LESS = 0.5  # the second run replaces the first if it reads less than this share of it
STREAMS = "every run reads its files from storage, not from the page cache"


def run_warm(run: Callable[[], ArmResult], notes: Sequence[str]) -> tuple[ArmResult, str]:
    """Run an arm with a warm page cache; returns a note too. ``notes`` are the earlier ones."""
    result = run()
    first = fetch_rate(result)
    if first < COLD_BYTES_S or STREAMS in notes or not result.is_comparable:
        return result, ""
    again = run()
    if not again.is_comparable or fetch_rate(again) >= LESS * first:
        return again, STREAMS
    return again, (
        f"one run read its files from storage ({first / 1e6:.0f} MB/s) and is not counted: times "
        "are with a warm page cache"
    )


def fetch_rate(result: ArmResult) -> float:
    """Bytes read from storage per second of its steps."""
    if result.report is None or len(result.report.marks) < 2:
        return 0.0
    begin, end = result.report.marks[0], result.report.marks[-1]
    return fetched_bytes(result.samples, begin, end) / max((end - begin) / 1e9, 1e-3)
