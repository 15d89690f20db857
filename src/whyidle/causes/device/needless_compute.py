"""Activations are recomputed, or evaluation records gradients, without need."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.analysis.partition.pauses import RECORDED, RECORDING
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.device import _kernel_savings as savings
from whyidle.model.cause import NOTICEABLE, Proof, cause
from whyidle.model.proof_facts import DeviceFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

REMAINING = (0.3, 0.0, 0.0)
"""share of the recomputation that stays; low gain: only part of the memory is free"""
ROOM = 0.6
"""peak memory use (share) above which recomputation is justified"""


@cause(
    "Activations are recomputed although memory is free",
    bucket="compute",
    needs=("device_events", "host_ops", "launch_links"),
    watched=("device_time", "own_settings", "steady_steps"),
)
def needless_compute(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Activation checkpointing recomputes parts of the forward pass during the backward pass, although
    memory is free. Or an evaluation records operators for a backward pass that never runs.

    Why it costs
    ------------
    The forward pass is about a third of a step's work. A second one makes a step a fifth to a third
    longer.

    How it is detected
    ------------------
    Trace: kernels are launched inside ``CheckpointFunctionBackward`` or ``torch.utils.checkpoint``,
    but not in the backward functions nested in them. The prediction replays the steps without them
    (P5). Peak memory must be at most 60 % of the limit, or unknown.

    Watched job on the CPU: evaluations with gradients enabled. They cost up to a third of the time
    of their operators. Recomputation is not judged there.

    What looks alike
    ----------------
    A job that needs recomputation. Without recorded memory it looks the same.

    What to do
    ----------
    Turn off activation checkpointing, or use it for some layers only. Evaluate under
    ``torch.inference_mode()`` or ``torch.no_grad()``.

    References
    ----------
    PyTorch, ``torch.utils.checkpoint``; Hugging Face, "Methods and tools for efficient training on
    a single GPU" (about 20 % slower with gradient checkpointing).
    """
    if facts.on_cpu:
        return _prove_gradients_in_evaluation(facts)
    used = savings.memory_used(facts)
    windows = _recomputation_time(facts)
    if not len(windows) or (used is not None and used > ROOM):
        return None
    calls = facts.launches.call[facts.kernels]
    launched = pick_rows(facts.timeline.host.start, calls, 0)
    rows = facts.kernels[(calls >= 0) & windows.contains_times(launched)]
    if not len(rows):
        return None
    share = savings.busy_share(facts, rows)
    evidence = [savings.share_evidence("recomputation, share of busy time", share, rows)]
    if used is not None:
        evidence.append(savings.share_evidence("peak memory in use", used, rows, "allocator"))
    return savings.make_proof(
        facts,
        rows,
        savings.scale_kernels(facts, (rows, REMAINING)),
        headline=f"{share:.0%} of the busy time recomputes activations"
        + ("" if used is None else f" while {1 - used:.0%} of the memory is free"),
        method="P5: recomputation removed, replayed against the recorded launches",
        evidence=tuple(evidence),
        confidence=0.8 if used is not None else 0.45,
    )


def _recomputation_time(facts: Facts) -> Intervals:
    """When the host launched forward work again, inside the backward pass."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.RECOMPUTATION)
    outer = union_of(host.start[rows], host.end[rows])
    inner = facts.rows_of(Role.OPERATOR_GRADIENT)
    inner = inner[outer.contains_times(host.start[inner])]
    return outer - union_of(host.start[inner], host.end[inner])


def _prove_gradients_in_evaluation(facts: Facts) -> Proof | None:
    """Prove that evaluations of a watched process never switched gradients off."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.EVALUATION_WITH_GRADIENTS)
    operators = np.flatnonzero(host.kind == HostKind.OP)
    spans, work = (union_of(host.start[part], host.end[part]) for part in (rows, operators))
    share = facts.share_of(spans & work)
    if share < NOTICEABLE:
        return None
    low, expected, high = (part * share for part in RECORDING)
    place = facts.places.place_of_samples(int(rows[0]))
    return Proof(
        headline=f"Evaluation runs with gradients enabled for {share:.0%} of the time",
        predicted=from_gains((low, expected, high), RECORDED),
        evidence=(
            make_evidence("work in evaluations with gradients on", share, "ratio", source="calls"),
            make_evidence("evaluations with gradients on", len(rows), None, source="Module.eval"),
        ),
        confidence=0.7,
        where=(place,) if place else (),
        facts=DeviceFacts(gradients=True),
        bucket="interruption",
    )
