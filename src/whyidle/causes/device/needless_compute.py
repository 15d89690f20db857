"""The forward pass is computed twice although memory is free."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.idle_gaps import pick_rows
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.pauses import RECORDED, RECORDING
from whyidle.causes.device import _kernel_savings
from whyidle.causes.device._recomputation import prove_recomputation
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

ROOM = 0.6
"""with more than this share of memory in use at the peak, recomputation earns its place"""
LEAST_SHARE = 0.03
"""share of the step below which evaluation with gradients is not worth a word"""
LEFT = (0.3, 0.0, 0.0)
"""share of the recomputation that stays, if only part of the memory is there"""


@cause(
    "Activations are recomputed although memory is free",
    bucket="compute",
    needs=("device_events", "host_ops", "launch_links"),
    watched=("device_time", "own_settings", "steady_steps"),
)
def needless_compute(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Activation checkpointing is on: the backward pass runs parts of the forward pass again, to save
    memory that is not short.

    Why it costs
    ------------
    The forward pass is about a third of the work of a step; done twice, it adds a fifth to a third.

    How it is detected
    ------------------
    Kernels launched inside ``CheckpointFunctionBackward`` or the recomputation of
    ``torch.utils.checkpoint``, and not inside the backward functions nested in it. Where the peak
    of memory is recorded and above 60 % of the device, nothing is reported: then it is needed.
    Removing them is replayed against the recorded launches (P5).

    On a watched job whose device is the CPU: stack samples of the backward pass that lie in a
    recomputation, while at most 60 % of the memory is in use; or work inside evaluations during
    which gradients were never switched off: recording operators for a backward pass that never
    comes costs up to a third of them.

    What looks alike
    ----------------
    Recomputation without which the job would not fit. Without recorded memory the two cannot be
    told apart: the finding says so by its confidence.

    What to do
    ----------
    Switch checkpointing off, or keep it for some layers only; then grow the batch into what is
    left of the memory, if at all.

    References
    ----------
    PyTorch, ``torch.utils.checkpoint``; Hugging Face, "Methods and tools for efficient training on
    a single GPU" (about 20 % slower with gradient checkpointing).
    """
    if facts.on_cpu:
        found = [
            one for one in (prove_recomputation(facts), _gradients_in_evaluation(facts)) if one
        ]
        return max(found, key=lambda one: one.high, default=None)
    used = _kernel_savings.memory_used(facts)
    windows = _recomputation_time(facts)
    if not len(windows) or (used is not None and used > ROOM):
        return None
    calls = facts.launches.call[facts.kernels]
    begun = pick_rows(facts.timeline.host.start, calls, 0)
    rows = facts.kernels[(calls >= 0) & windows.contains_times(begun)]
    if not len(rows):
        return None
    share = _kernel_savings.busy_share(facts, rows)
    factors = _kernel_savings.unit_factors(facts)
    _kernel_savings.scale_times(factors, rows, LEFT)
    memory = (
        ()
        if used is None
        else (_kernel_savings.share_evidence("peak memory in use", used, rows, "allocator"),)
    )
    return _kernel_savings.make_proof(
        facts,
        rows,
        factors,
        headline=f"{share:.0%} of the busy time recomputes activations"
        + ("" if used is None else f" while {1 - used:.0%} of the memory is free"),
        method="P5: recomputation removed, replayed against the recorded launches",
        evidence=(
            _kernel_savings.share_evidence("recomputation, share of busy time", share, rows),
            *memory,
        ),
        confidence=0.8 if used is not None else 0.45,
    )


def _recomputation_time(facts: Facts) -> Intervals:
    """When the host was launching forward work again, inside the backward pass."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.RECOMPUTATION)
    outer = union_of(host.start[rows], host.end[rows])
    inner = facts.rows_of(Role.OPERATOR_GRADIENT)
    inner = inner[outer.contains_times(host.start[inner])]
    return outer - union_of(host.start[inner], host.end[inner])


def _gradients_in_evaluation(facts: Facts) -> Proof | None:
    """Evaluation of a watched process that never switched gradients off."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.EVALUATION_WITH_GRADIENTS)
    spans = union_of(host.start[rows], host.end[rows])
    share = facts.share_of(spans & _operator_time(facts))
    if share < LEAST_SHARE:
        return None
    gains = (RECORDING[0] * share, RECORDING[1] * share, RECORDING[2] * share)
    place = facts.places.place_of_samples(int(rows[0]))
    return Proof(
        headline=f"Evaluation computes for {share:.0%} of the time with gradients on",
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, RECORDED),
        evidence=(
            make_evidence("work in evaluations with gradients on", share, "ratio", source="calls"),
            make_evidence("such evaluations", len(rows), None, source="Module.eval"),
        ),
        confidence=0.7,
        where=(place,) if place else (),
        facts=DeviceFacts(gradients=True),
        bucket="interruption",
    )


def _operator_time(facts: Facts) -> Intervals:
    """When operators ran, in evaluations too."""
    host = facts.timeline.host
    rows = np.flatnonzero(host.kind == HostKind.OP)
    return union_of(host.start[rows], host.end[rows])
