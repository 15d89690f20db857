"""Gradients are exchanged after every micro-batch of an accumulated step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import remove
from whyidle.model.cause import Proof, cause

LEAST_SHARE = 0.01
"""exposed share of the step below which communication is not worth a word"""
FULL = 0.5
"""an exchange of at least half of the largest one's calls is one of all gradients"""


class _Rhythm(NamedTuple):
    """Exchanges of gradients per optimizer step (median), all exchanges, calls per exchange."""

    per_update: int
    exchanges: int
    calls: float


@cause(
    "Gradients are exchanged after every micro-batch",
    bucket="communication",
    needs=("host_ops", "steps"),
)
def allreduce_every_microstep(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The optimizer steps once per N micro-batches (gradient accumulation), but
    DistributedDataParallel averages the gradients over ranks after each of the N backward passes.

    Why it costs
    ------------
    Only the sum is needed: N - 1 of N exchanges are thrown away.

    How it is detected
    ------------------
    Between two optimizer steps lie several forward passes of DistributedDataParallel, and each is
    followed by all-reduces, at least half as many as after any other. Lost time is (N - 1) / N of
    the exposed communication behind which work was queued (P7).

    What looks alike
    ----------------
    Two models that take turns (a GAN) have several forward passes and optimizer steps; exchanges
    are counted per optimizer step, so they do not fire. Frameworks that accumulate by themselves
    (Lightning, Accelerate) skip the exchange already.

    What to do
    ----------
    Run all but the last micro-batch under ``with model.no_sync():``.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Skip unnecessary all-reduce if training with
    DistributedDataParallel and gradient accumulation".
    """
    exposed = facts.share_of(facts.held_up) + facts.share("collective_call")
    rhythm = _rhythm(facts)
    if rhythm is None or rhythm.per_update < 2 or exposed < LEAST_SHARE:
        return None
    needless = 1.0 - 1.0 / rhythm.per_update
    lost = exposed * needless
    return Proof(
        headline=f"Gradients are exchanged {rhythm.per_update} times per optimizer step; once is "
        "enough",
        low=lost * 0.5,
        high=lost,
        predicted=remove(lost * 0.5, lost, "P7: (N - 1) / N of the exposed exchange", lost * 0.9),
        evidence=(
            measured(
                "exchanges of gradients per optimizer step",
                rhythm.per_update,
                "1",
                samples=rhythm.exchanges,
                source="host spans",
            ),
            measured("all-reduces per exchange", rhythm.calls, "1", source="host spans"),
            measured("communication that holds up work, share of step", exposed, "ratio"),
        ),
        confidence=0.9,
        facts={"micro_batches": rhythm.per_update},
    )


def _rhythm(facts: Facts) -> _Rhythm | None:
    """None where forward passes, optimizer steps or all-reduces are not recorded."""
    host = facts.timeline.host
    forwards = host.start[facts.named(r"^DistributedDataParallel\.forward$")]
    updates = _updates(facts)
    calls = np.sort(host.start[facts.named(r"^c10d::allreduce_|^(nccl|gloo):all_?reduce$")])
    if len(forwards) < 2 or len(updates) < 2 or not len(calls):
        return None
    edges = np.append(np.sort(forwards), np.iinfo(np.int64).max)
    made = np.diff(np.searchsorted(calls, edges))
    full = edges[:-1][made >= max(FULL * made.max(), 1)]
    between = np.diff(np.searchsorted(full, updates))
    return _Rhythm(int(np.median(between)), len(full), float(np.median(made[made > 0])))


def _updates(facts: Facts) -> np.ndarray:
    """Starts of the steps of the busiest optimizer: one of several names stands for all."""
    host = facts.timeline.host
    rows = facts.named(r"^Optimizer\.step#")
    if not len(rows):
        return np.empty(0, np.int64)
    names, counts = np.unique(host.name[rows], return_counts=True)
    return np.sort(host.start[rows[host.name[rows] == names[counts.argmax()]]])
