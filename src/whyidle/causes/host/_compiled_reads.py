"""Reads of every step's result that keep a compiled step from running beside Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.arrays import F64
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.data_libraries import STARVED, waiting_share
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.source_lines import at_place
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.buckets import Bucket
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, MOSTLY, Proof
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

AHEAD = 8
"""steps that a host runs ahead of its device; on a CPU, JAX limits it to 32 computations"""


def reads_of_steps(facts: Facts) -> Proof | None:
    """Prove that reads keep host and device from working at the same time. Without them a step
    takes as long as the longer of the two (P3). On a CPU, they share the cores."""
    host, executed = facts.timeline.host, facts.rows_of(Role.EXECUTION)
    rows = facts.rows_of(Role.SYNC)
    reads = union_of(host.start[rows], host.end[rows])
    if len(rows) < MOSTLY * facts.step_count:
        return None
    if facts.timeline.process.py_dataset is not None and waiting_share(facts) >= STARVED:
        return None  # batches of other threads come no sooner without reads
    parts = _divide_steps(facts, reads, union_of(host.start[executed], host.end[executed]))
    own, device = (float(part.sum()) for part in (parts.own, parts.device))
    cores = facts.timeline.process.cores or 1.0
    hopeful = parts.gain_beside(parts.device)
    careful = parts.gain_beside(parts.device + parts.own / cores) if facts.on_cpu else hopeful
    expected = (careful + hopeful) / 2
    taken = _cores_of_device(facts, own, device) if facts.on_cpu else None
    if taken:  # beside the host, the device works with the cores that are left to it
        slowed = 1.0 - min(1.0, max(0.0, cores - 1.0) / taken)
        expected = parts.gain_beside(parts.device + parts.own * slowed)
    gains = (careful, min(max(careful, expected), hopeful), hopeful)
    if gains[1] < LEAST_SHARE:
        return None
    found = (facts.places.place_of(int(row)) for row in rows[: 10 * MOST_PLACES])
    where = tuple(dict.fromkeys(filter(None, found)))[:MOST_PLACES]
    buckets: tuple[Bucket, ...] = ("input", "host", "sync")  # where the device is idle
    return Proof(
        headline=f"A result is read in every step{at_place(where)}, so the {facts.device_noun} is "
        f"idle while the next step is prepared",
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, "P3: the longer of host and device"),
        evidence=(
            make_evidence("reads that wait, per step", len(rows) / facts.step_count, None,
                          samples=len(rows)),
            make_evidence("device works, share of step", device, "ratio"),
            make_evidence("host works, share of step", own, "ratio"),
        ),
        confidence=0.85 if where else 0.7,
        where=where,
        bucket=max(buckets, key=lambda bucket: facts.bucket_share(str(bucket))),
        facts=HostFacts(scalar=True, every=100),
    )  # fmt: skip


class _StepParts(NamedTuple):
    """The parts of each step without evaluations, as shares of the time of all steps."""

    own: F64  # the host's time without reads
    device: F64
    left: float  # share of all time that is no evaluation

    def gain_beside(self, busy: F64) -> float:
        """Return the gain if a few steps together take as long as the longer of host and device. A
        wait at the end of an epoch hides only the work of the last steps."""
        first = np.arange(0, len(busy), AHEAD)
        own, busy = (np.add.reduceat(part, first) for part in (self.own, busy))
        return max(0.0, self.left - float(np.maximum(own, busy).sum()))


def _divide_steps(facts: Facts, reads: Intervals, executed: Intervals) -> _StepParts:
    start, end = facts.steps.start[facts.steps_in_scope], facts.steps.end[facts.steps_in_scope]
    pauses, total = facts.time_of("evaluation"), max(float((end - start).sum()), 1.0)
    kept, read, busy = (
        part.length_inside(start, end) / total
        for part in (pauses, reads - pauses, executed - pauses)
    )
    steps = (end - start) / total
    return _StepParts(np.maximum(steps - kept - read, 0.0), busy, float((steps - kept).sum()))


def _cores_of_device(facts: Facts, own: float, device: float) -> float | None:
    """Cores that computing on the CPU keeps busy: the CPU time of the process, less that of its
    single-threaded host. None if unknown."""
    reads = facts.timeline.process.cpu
    if len(reads) < 2 or reads[-1][0] <= reads[0][0] or not device:
        return None
    used = (reads[-1][1] - reads[0][1]) / (reads[-1][0] - reads[0][0])
    return max(1.0, (used - own) / device)


def has_compiled_steps(facts: Facts) -> bool:
    """Return whether whole steps were compiled and run beside the thread that calls them."""
    return bool(np.size(facts.timeline.rows_of(Role.EXECUTION)))
