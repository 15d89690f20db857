"""Which burst represents a run, and its shares without the cost of recording. Recording slows the
host and not the device: kernels take as long as usual, the gaps between them grow, and the steps
around the burst show the usual length. A burst has few steps and contains rare events (a save, a
slow batch, a pause) by chance; marks of the whole run tell how frequent they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Final

import numpy as np
from msgspec import structs

from whyidle.analysis.steps.step_detection import StepWindows
from whyidle.model.process_facts import BurstInRun
from whyidle.model.timeline import Timeline

WORKING: Final = ("compute", "collective", "copy")
"""reasons of the device's own work, which recording does not lengthen"""
SLOWED: Final = (
    "launch",
    "python",
    "device_gap",
    "sync_refill",
    "copy_refill",
    "copy_call",
    "collective_call",
    "unseen",
    "contradiction",
)
"""reasons of waiting while the host prepares a launch, which recording lengthens; a batch, a
checkpoint or another rank does not come later because of it"""
OVER_THE_RUN: Final = ("loader", "checkpoint", "logging", "gc")
"""reasons of waiting that marks record over the whole run (``time_partition``)"""
AROUND = 50
"""steps before and after a burst whose median is its usual step time"""


def sort_bursts(bursts: Sequence[Timeline], step_s: float) -> list[Timeline]:
    """Return the bursts, first the one with surroundings most like the run's typical step."""

    def unlike(burst: Timeline) -> float:
        before = burst.burst.before_s if burst.burst else None
        return abs(log(before / step_s)) if before and step_s > 0 else float("inf")

    return sorted(bursts, key=unlike)


def with_run_context(
    burst: Timeline,
    live: Timeline,
    steps: StepWindows,
    run: tuple[float, Mapping[str, float]] | None = None,
) -> Timeline:
    """Return the burst with its surroundings in the run: ``steps`` and the mean ``run`` step."""
    context = burst.burst or BurstInRun()
    if run is not None:
        shares = {name: run[1][name] for name in OVER_THE_RUN}
        context = structs.replace(context, run_s=run[0], run=shares)
        burst = replace(burst, burst=context)
    if context.begin is None or context.end is None:
        return burst
    start, end = (edges[steps.steady] for edges in steps.on_host)
    before = end <= context.begin - live.base_ns
    after = start >= context.end - live.base_ns
    near = np.concatenate([(end - start)[before][-AROUND:], (end - start)[after][:AROUND]])
    if not len(near):
        return burst
    return replace(burst, burst=structs.replace(context, usual_s=float(np.median(near)) / 1e9))


def around_s(context: BurstInRun) -> float | None:
    """Return the host's step time around a burst, s; None where not timed."""
    if context.usual_s:
        return context.usual_s
    lengths = [seconds for seconds in (context.before_s, context.after_s) if seconds]
    return sum(lengths) / len(lengths) if lengths else None


def undo_recording_cost(
    shares: Mapping[str, float], step_s: float, context: BurstInRun
) -> dict[str, float]:
    """Return the shares of every reason without the recording's cost, which is taken from
    ``SLOWED``. Steps become neither longer nor shorter than the device's work. Where the whole run
    is known, the shares are of its steps."""
    usual_shares, length_s = _usual_shares(shares, step_s, context)
    return _of_the_run(usual_shares, length_s, context)


def _usual_shares(
    shares: Mapping[str, float], step_s: float, context: BurstInRun
) -> tuple[dict[str, float], float]:
    """Shares for steps as long as those around the burst, and their length, s."""
    usual = around_s(context)
    slowed = sum(shares.get(reason, 0.0) for reason in SLOWED)
    if usual is not None:
        usual = max(usual, step_s * sum(shares.get(reason, 0.0) for reason in WORKING))
    if usual is None or step_s <= usual or not slowed:
        return dict(shares), step_s
    excess = min(1.0 - usual / step_s, slowed)
    scaled = {
        reason: share * (1.0 - excess / slowed if reason in SLOWED else 1.0)
        for reason, share in shares.items()
    }
    return {reason: share / (1 - excess) for reason, share in scaled.items()}, step_s * (1 - excess)


def _of_the_run(shares: dict[str, float], length_s: float, context: BurstInRun) -> dict[str, float]:
    """Shares of the run's mean step: rare events over the run, all else as in the burst. The rest
    is "unseen"."""
    if not context.run_s:
        return shares
    seconds = {reason: share * length_s for reason, share in shares.items()}
    seconds |= {reason: share * context.run_s for reason, share in context.run.items()}
    rest = max(0.0, context.run_s - sum(seconds.values()))
    seconds["unseen"] = seconds.get("unseen", 0.0) + rest
    total = sum(seconds.values())
    return {reason: time / total for reason, time in seconds.items()}


def slowed_by(context: BurstInRun) -> float:
    """Return the share of a recorded step (0-1) that the recording added; 0 where unknown."""
    usual, during = around_s(context), context.during_s
    return max(0.0, 1.0 - usual / during) if usual and during else 0.0
