"""Decides whether a measured fix is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.loop.candidates import WORTH
from whyidle.fix.loop.trial_result import (
    UNTOLD,
    ArmFactory,
    RejectionReason,
    TrialResult,
    harm_reason,
)
from whyidle.fix.statistics.background_load import compare_load
from whyidle.fix.statistics.memory_leak import MemoryLeak, find_leaks, goes_on
from whyidle.fix.statistics.rank_equivalence import baseline_by_rank, check_all_ranks
from whyidle.fix.statistics.speedup import SpeedupEstimate

HARM = 0.75
"""a fix below this speed-up that is slower in every pair is called slower without further proof"""
LONGER = 3  # length of the arm that confirms a leak, relative to a usual arm


def decide_acceptance(
    trial: TrialResult, bench: ArmFactory, bases: list[ArmResult], treats: list[ArmResult]
) -> None:
    """Keep the fix, or set the reason why not."""
    gain = trial.effect
    if gain is None:
        return
    if not is_proven_gain(gain):
        why = too_little(trial, gain)
        trial.hurried &= why.kind == "untold"
        addition = ", and no time was left for more pairs" if trial.hurried else ""
        if not gain.low > 1.0 and (text := compare_load(bases, treats)):
            addition += f", but {text}: try it again when the machine is idle"
        trial.reason = replace(why, text=why.text + addition)
        return
    remaining = trial.remaining_steps = _remaining_job(trial, bench, bases)
    if remaining is not None and trial.once is not None and trial.once.pays_after > remaining:
        longer = "" if bench.left else " (the real job is longer: --left 20000)"
        trial.reason = RejectionReason("little", f"{trial.once.describe_cost(remaining)}{longer}")
        return
    leak, slow = find_leaks(bases, treats, fmean(trial.treated_s), remaining)
    trial.notes += [one.describe_leak(fmean(trial.treated_s)) for one in slow]
    if leak is not None and (text := _describe_leak(leak, trial, bench)):
        trial.reason = harm_reason(text)
        return
    trial.check, trial.untreated = check_all_ranks(
        trial.candidate, baseline_by_rank(bases), treats, bench
    )
    if not trial.check.holds:
        text = trial.check.explanation
        trial.reason = (
            harm_reason(text) if trial.check.measured else RejectionReason("unjudged", text)
        )
    trial.kept = trial.reason is None


def is_proven_gain(gain: SpeedupEstimate) -> bool:
    """Whether the gain is significant and large enough."""
    return gain.low > 1.0 and gain.speedup >= WORTH


def too_little(trial: TrialResult, gain: SpeedupEstimate) -> RejectionReason:
    """The reason to reject a gain that is not proven or too small."""
    always = all(one > other for one, other in zip(trial.treated_s, trial.base_s, strict=True))
    if gain.high < 1.0:
        return RejectionReason("little", "slower")
    if gain.speedup < HARM and always:
        pairs = "the only pair" if gain.pairs == 1 else f"each of {gain.pairs} pairs"
        return RejectionReason("little", f"slower in {pairs}")
    if gain.low > 1.0:
        return RejectionReason("little", f"gain under {WORTH - 1:.0%}")
    pairs = f"{gain.pairs} pair{'s' if gain.pairs != 1 else ''}"
    return replace(UNTOLD, text=f"{UNTOLD.text} in {pairs}")


def _describe_leak(leak: MemoryLeak, trial: TrialResult, bench: ArmFactory) -> str:
    """Describe a leak; empty if a longer run shows that it is none, which is noted."""
    growth = leak.describe_leak(fmean(trial.treated_s))
    steps = min(len(result.report.marks) for result in trial.treats if result.report)
    bench.say("a longer run with it, to check whether its memory keeps growing")
    guess = f"it may leak: {growth}, measured over {steps} steps"
    result = bench.lasting(LONGER * steps, steps)
    if result is None:
        trial.hurried = True
        return f"{guess}; there was no time for a longer run"
    if not result.is_comparable:
        return f"{guess}; a longer run failed"
    if goes_on(leak, result, steps):
        return f"it leaks: {growth}"
    trial.notes.append(f"{leak.where} memory grows in the first {steps} steps only")
    return ""


def _remaining_job(
    trial: TrialResult, bench: ArmFactory, bases: Sequence[ArmResult]
) -> float | None:
    """Remaining steps of the job: as given, or the length of arms that ended by themselves."""
    if bench.left is not None:
        return bench.left.remaining_steps(fmean(trial.base_s))
    lengths = [
        len(result.report.marks)
        for result in bases
        if result.report and result.ending == "finished"
    ]
    return float(max(lengths)) if lengths else None
