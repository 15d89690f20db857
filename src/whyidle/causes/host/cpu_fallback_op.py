"""An operator runs on the CPU in the midst of the step."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

LEAST_GAIN = 0.005
"""share of the step below which a fallback is not worth a word"""
REMOVED = (0.5, 0.97, 1.0)
"""careful, expected, hopeful: the operator's time on the GPU is not known. What a core of the CPU
reads at some 10 GB/s even a small GPU (T4) reads at 320 GB/s"""
BUCKETS: Final[tuple[Bucket, ...]] = ("sync", "host", "transfer")
"""where its time may lie: a large tensor's mostly in its copies"""
STAYS = 0.5
"""careful: the operator becomes cheaper where it is, and its copies take as long as before; the
waits for them count as gone all the same"""


@cause(
    "An operator runs on the CPU in the midst of the step",
    bucket="sync",
    needs=("device_events", "host_ops", "runtime_calls", "launch_links", "steps"),
)
def cpu_fallback_op(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Data leaves the GPU, an operator (or NumPy, SciPy, scikit-learn) works on it on the CPU, and
    the result goes back: a module or buffer left on the CPU, or an operator without a GPU form.

    Why it costs
    ------------
    The copy back waits until the GPU has drained; then the GPU idles while the CPU works, copies
    the result, and fills the queue again.

    How it is detected
    ------------------
    Within one step: a copy from the device, then operators on the same thread that launch nothing
    and take at least 20 us, then a copy to the device. What NumPy does is not recorded: there the
    thread takes as long between the copies, and they move about as many elements. The gain is the
    replay of the recorded steps without these waits and with that CPU work halved, or, with the
    copies gone, cut to 3 % or to nothing (P3 plus the operator's time on the CPU less its time
    on the GPU, which is not known).

    What looks alike
    ----------------
    Reading a scalar copies nothing forth: ``per-step-host-sync``. The next batch's copy after a
    logged scalar belongs to another step.

    What to do
    ----------
    Move the module, buffer or constant to the device, replace the operator, or do its work for
    the whole batch before the step.

    References
    ----------
    TensorFlow, "Optimize TensorFlow GPU performance with the TensorFlow Profiler" (op placement);
    Nerogar/OneTrainer#1608.
    """
    spans = facts.waits.cpu_fallbacks
    if not spans:
        return None
    host = facts.timeline.host
    rows = np.concatenate(spans)
    work = union_of(
        np.array([host.end[span[0]] for span in spans]),
        np.array([host.start[span[-1]] for span in spans]),
    )
    replay = facts.replay
    work = work - replay.waiting
    copies = np.where(np.isin(facts.launches.call, rows), 0.0, 1.0)
    runs = [
        replay.replayed_length(
            replay.reduce_host_time(work, ratio),
            without=rows,
            factor=copies if ratio > STAYS else None,
        )
        for ratio in REMOVED
    ]
    gains = [max(0.0, 1.0 - run / replay.base_ns) for run in runs]
    if gains[2] < LEAST_GAIN:
        return None
    held = _fallback_windows(facts, spans)
    each: dict[Bucket, float] = {
        bucket: facts.share_of(facts.time_of(bucket) & held) for bucket in BUCKETS
    }
    exposed, longest = sum(each.values()), max(BUCKETS, key=lambda bucket: each[bucket])
    names = _slowest_operators(facts, work)
    who = f"The operator {names[0]}" if names else "Something outside PyTorch"
    low, middle, high = sorted(gains)
    lost = max(exposed, middle)
    return Proof(
        headline=f"{who} runs on the CPU in the midst of the step, "
        f"{len(spans) / facts.step_count:.3g} times per step",
        low=min(low, lost),
        high=lost,
        predicted=from_gains((low, middle, high), "P3: recorded steps replayed without it"),
        evidence=(
            Evidence(
                quantity="copies back and forth around work on the CPU, per step",
                value=len(spans) / facts.step_count,
                unit=None,
                window="steps in scope",
                samples=len(spans),
                source="runtime",
            ),
            Evidence(
                quantity="work on the CPU between them, share of step",
                value=facts.share_of(work),
                unit="ratio",
                window="steps in scope",
                samples=len(spans),
                source="operators",
            ),
        ),
        confidence=0.8,
        bucket=longest,
        where=tuple(place for place in [_fallback_place(facts, int(spans[0][0]))] if place),
        facts=HostFacts(operators=tuple(names)),
    )


def _fallback_windows(facts: Facts, spans: list[NDArray[np.int64]]) -> Intervals:
    host = facts.timeline.host
    return union_of(
        np.array([host.start[span[0]] for span in spans]),
        np.array([host.end[span[-1]] for span in spans]),
    )


def _fallback_place(facts: Facts, row: int) -> Place | None:
    return facts.places.place_of(facts.waits.operator_row(row))


def _slowest_operators(facts: Facts, work: Intervals) -> list[str]:
    """The operators that took longest on the CPU."""
    host, names = facts.timeline.host, facts.timeline.names
    rows = np.flatnonzero((host.kind == HostKind.OP) & work.contains_times(host.start))
    spent: Counter[str] = Counter()
    for row in np.setdiff1d(rows, facts.timeline.rows_of(Role.DATA_MOVEMENT)):
        spent[names[host.name[row]]] += int(host.end[row] - host.start[row])
    return [name for name, _ in spent.most_common(3)]
