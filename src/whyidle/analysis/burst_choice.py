"""Which of a run's bursts, recordings of every operator of a few steps, speaks for it, and what its
shares would be, had nobody recorded them.

Recording slows the host and not the device: kernels last as long as ever, and what stands still
between them grows. How long steps take without it is known from the steps around the burst.

A burst is a few steps. What happens now and then (a save, a slow batch, a pause) is in it by
chance, or not; the signals of the whole run tell how often it is. What they do not tell of the
rest of the run, nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Final

import numpy as np

from whyidle.analysis.evaluation_utilization import EvaluationUtilization
from whyidle.analysis.step_detection import StepWindows
from whyidle.model.process_facts import BurstInRun
from whyidle.model.timeline import Timeline

WORKING: Final = ("compute", "collective", "copy")
"""reasons that the device's own work has: they last as long as without a recording"""
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
"""reasons of waiting while the host is on its way to a launch, which a recording makes longer; a
batch, a checkpoint or another rank comes no later for it"""
OVER_THE_RUN: Final = ("loader", "checkpoint", "logging", "gc")
"""reasons of waiting that marks tell of the whole run (``partition``)"""
AROUND = 50
"""steps before a burst, and as many after it, whose median is what its steps usually take"""


def most_like(bursts: Sequence[Timeline], step_s: float) -> list[Timeline]:
    """Bursts, first the one around which steps were most like a typical one of the run."""

    def unlike(burst: Timeline) -> float:
        before = burst.burst.before_s if burst.burst else None
        return abs(log(before / step_s)) if before and step_s > 0 else float("inf")

    return sorted(bursts, key=unlike)


def with_run_context(
    burst: Timeline,
    live: Timeline,
    steps: StepWindows,
    run: tuple[float, Mapping[str, float]] | None = None,
    busy: EvaluationUtilization | None = None,
) -> Timeline:
    """The burst, which then knows how long the ``steps`` of its run around it were, and of the
    ``run``, where that is known, how long its steps are on average (s) and the shares of them, and
    how ``busy`` its device was."""
    told = burst.burst or BurstInRun()
    if run is not None:
        names = (*OVER_THE_RUN, "evaluation") if busy else OVER_THE_RUN
        told = replace(told, run_s=run[0], run={name: run[1][name] for name in names})
        if busy and (live.world_size or 1) == 1:  # else it may be waiting for other ranks
            told = replace(told, busy=busy.all, evaluating=busy.evaluating * busy.share)
        burst = replace(burst, burst=told)
    if told.begin is None or told.end is None:
        return burst
    start, end = (edges[steps.steady] for edges in steps.on_host)
    before = end <= told.begin - live.base_ns
    after = start >= told.end - live.base_ns
    near = np.concatenate([(end - start)[before][-AROUND:], (end - start)[after][:AROUND]])
    if not len(near):
        return burst
    return replace(burst, burst=replace(told, usual_s=float(np.median(near)) / 1e9))


def around_s(told: BurstInRun) -> float | None:
    """Length of the steps around a burst, s: the host's, which is ahead of its device where they
    are shorter than the device's work. None where they were not timed."""
    if told.usual_s:
        return told.usual_s
    lengths = [seconds for seconds in (told.before_s, told.after_s) if seconds]
    return sum(lengths) / len(lengths) if lengths else None


def undo_recording_cost(
    shares: Mapping[str, float], step_s: float, told: BurstInRun
) -> dict[str, float]:
    """Shares of every reason in steps as long as those around the burst, whose own took ``step_s``:
    the device's work keeps its seconds, and the difference is taken from what recording slows.
    Sums stay what they were. Steps that were longer without a recording leave them alone, and none
    is shorter than the device's work, as a host that runs ahead of it makes most of them seem.
    Where the whole run is known they are shares of its steps (``_of_the_run``).
    """
    kept, length_s = _usual_shares(shares, step_s, told)
    return _of_the_run(kept, length_s, told)


def _usual_shares(
    shares: Mapping[str, float], step_s: float, told: BurstInRun
) -> tuple[dict[str, float], float]:
    """Shares of steps as those around the burst, and their length, s."""
    usual = around_s(told)
    slowed = sum(shares.get(reason, 0.0) for reason in SLOWED)
    if usual is not None:
        usual = max(usual, step_s * sum(shares.get(reason, 0.0) for reason in WORKING))
    if usual is None or step_s <= usual or not slowed:
        return dict(shares), step_s
    excess = min(1.0 - usual / step_s, slowed)
    kept = {
        reason: share * (1.0 - excess / slowed if reason in SLOWED else 1.0)
        for reason, share in shares.items()
    }
    return {reason: share / (1 - excess) for reason, share in kept.items()}, step_s * (1 - excess)


def _of_the_run(shares: dict[str, float], length_s: float, told: BurstInRun) -> dict[str, float]:
    """What comes now and then takes the time that it takes over the run, anything else the seconds
    that it takes in the burst's steps. What these leave of the run's mean step is work of its
    evaluations, up to what is known of that; the rest was not seen."""
    if not told.run_s:
        return shares
    seconds = {reason: share * length_s for reason, share in shares.items()}
    seconds |= {reason: share * told.run_s for reason, share in told.run.items()}
    rest = max(0.0, told.run_s - sum(seconds.values()))
    work = min(rest, _evaluated_s(seconds, told.run_s, told))
    seconds["compute"] = seconds.get("compute", 0.0) + work
    seconds["unseen"] = seconds.get("unseen", 0.0) + rest - work
    whole = sum(seconds.values())
    return {reason: each / whole for reason, each in seconds.items()}


def _evaluated_s(seconds: Mapping[str, float], run_s: float, told: BurstInRun) -> float:
    """For how long evaluations may have given the device work that ``seconds`` do not hold: with
    those it is no longer busy than was read beside it."""
    kernels = seconds.get("compute", 0.0) + seconds.get("collective", 0.0)
    most = told.busy * run_s - kernels
    return max(0.0, min(most, told.evaluating * run_s))


def slowed_by(told: BurstInRun) -> float:
    """Share of a recorded step that the host would not have taken without the recording (0-1), as
    measured beside it; 0 where that is not known."""
    usual, during = around_s(told), told.during_s
    return max(0.0, 1.0 - usual / during) if usual and during else 0.0
