"""The forward pass is computed twice although memory is free."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.gaps import picked
from whyidle.analysis.intervals import Intervals, union
from whyidle.causes.device import _busy
from whyidle.model.cause import Proof, cause

ROOM = 0.6
"""with more than this share of memory in use at the peak, recomputation earns its place"""
WINDOWS = (
    r"^CheckpointFunctionBackward$|torch/utils/checkpoint\.py\(\d+\): (recompute_fn|unpack_hook)$"
)
INNER = r"^autograd::engine::evaluate_function: (?!CheckpointFunctionBackward)"
LEFT = (0.3, 0.0, 0.0)
"""share of the recomputation that stays, if only part of the memory is there"""


@cause(
    "Activations are recomputed although memory is free",
    bucket="compute",
    needs=("device_events", "host_ops", "launch_links"),
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
    used = _busy.memory_used(facts)
    windows = _recomputing(facts)
    if not len(windows) or (used is not None and used > ROOM):
        return None
    calls = facts.launches.call[facts.kernels]
    begun = picked(facts.timeline.host.start, calls, 0)
    rows = facts.kernels[(calls >= 0) & windows.covers(begun)]
    if not len(rows):
        return None
    share = _busy.busy_share(facts, rows)
    factors = _busy.unchanged(facts)
    _busy.scale(factors, rows, LEFT)
    memory = (
        ()
        if used is None
        else (_busy.share_evidence("peak memory in use", used, rows, "allocator"),)
    )
    return _busy.proof(
        facts,
        rows,
        factors,
        headline=f"{share:.0%} of the busy time recomputes activations"
        + ("" if used is None else f" while {1 - used:.0%} of the memory is free"),
        method="P5: recomputation removed, replayed against the recorded launches",
        evidence=(_busy.share_evidence("recomputation, share of busy time", share, rows), *memory),
        confidence=0.8 if used is not None else 0.45,
    )


def _recomputing(facts: Facts) -> Intervals:
    """When the host was launching forward work again, inside the backward pass."""
    host = facts.timeline.host
    rows = facts.named(WINDOWS)
    outer = union(host.start[rows], host.end[rows])
    inner = facts.named(INNER)
    inner = inner[outer.covers(host.start[inner])]
    return outer - union(host.start[inner], host.end[inner])
