"""An operator runs on the CPU in the middle of the step."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.buckets import Bucket
from whyidle.model.cause import HARMLESS, Proof, cause
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

REMOVED = (0.5, 0.97, 1.0)
"""share of the CPU work that is saved (low, expected, high); its time on the GPU is unknown. A CPU
core reads about 10 GB/s, even a small GPU (T4) 320 GB/s"""
BUCKETS: Final[tuple[Bucket, ...]] = ("sync", "host", "transfer")
"""buckets of its time; for a large tensor mostly copies"""
STAYS = 0.5
"""lower bound: the operator stays on the CPU at half its cost, and its copies remain"""


@cause(
    "An operator runs on the CPU in the middle of the step",
    bucket="sync",
    needs=("device_events", "host_ops", "runtime_calls", "launch_links", "steps"),
)
def cpu_fallback_op(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Data is copied to the CPU, an operator (or NumPy, SciPy, scikit-learn) processes it there, and
    the result is copied back. A module or buffer is on the CPU, or no GPU version exists.

    Why it costs
    ------------
    The copy to the CPU waits until the GPU has finished its queue. The GPU is then idle while the
    CPU works, copies the result back and fills the queue again.

    How it is detected
    ------------------
    Within one step, a thread copies from the device, runs operators that launch nothing and take at
    least 20 us, and copies to the device. NumPy's work is not recorded. Instead, the time between
    two copies of about as many elements counts. The recorded steps are replayed without these waits
    (P3). The lower bound keeps half of the CPU work and the copies. The expected gain keeps 3 % of
    the work, the upper bound none, both without the copies.

    What looks alike
    ----------------
    Reading a scalar copies nothing back: ``per-step-host-sync``. The copy of the next batch after a
    logged scalar belongs to another step.

    What to do
    ----------
    Move the module or buffer to the device, replace the operator, or do its work before the step.

    References
    ----------
    TensorFlow, "Optimize TensorFlow GPU performance with the TensorFlow Profiler" (op placement);
    Nerogar/OneTrainer#1608.
    """
    spans = facts.waits.cpu_fallbacks
    if not spans:
        return None
    host, replay = facts.timeline.host, facts.replay
    rows = np.concatenate(spans)
    first, last = (np.array([span[i] for span in spans]) for i in (0, -1))
    work = union_of(host.end[first], host.start[last]) - replay.waiting
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
    if gains[2] < HARMLESS:
        return None
    windows = union_of(host.start[first], host.end[last])
    shares = [facts.share_of(facts.time_of(bucket) & windows) for bucket in BUCKETS]
    names = _slowest_operators(facts, work)
    subject = f"The operator {names[0]}" if names else "Code outside PyTorch"
    low, middle, high = sorted(gains)
    lost, count = max(sum(shares), middle), len(spans)
    per_step = count / facts.step_count
    frequency = "once" if count == facts.step_count else f"{per_step:.3g} times"
    transfers = "copies to the CPU and back, per step"
    between, cpu_share = "CPU work between the copies, share of step", facts.share_of(work)
    place = facts.places.place_of(facts.waits.operator_row(int(first[0])))
    return Proof(
        headline=f"{subject} runs on the CPU in the middle of the step, {frequency} per step",
        low=min(low, lost),
        high=lost,
        predicted=from_gains((low, middle, high), "P3: recorded steps replayed without it"),
        evidence=(
            make_evidence(transfers, per_step, None, samples=count, source="runtime"),
            make_evidence(between, cpu_share, "ratio", samples=count, source="operators"),
        ),
        confidence=0.8,
        bucket=BUCKETS[shares.index(max(shares))],
        where=(place,) if place else (),
        facts=HostFacts(operators=tuple(names)),
    )


def _slowest_operators(facts: Facts, work: Intervals) -> list[str]:
    """Names of the operators that took longest on the CPU."""
    host, names = facts.timeline.host, facts.timeline.names
    rows = np.flatnonzero((host.kind == HostKind.OP) & work.contains_times(host.start))
    spent: Counter[str] = Counter()
    for row in np.setdiff1d(rows, facts.timeline.rows_of(Role.DATA_MOVEMENT)):
        spent[names[host.name[row]]] += int(host.end[row] - host.start[row])
    return [name for name, _ in spent.most_common(3)]
