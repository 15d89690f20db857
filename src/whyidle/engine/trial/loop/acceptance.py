"""Whether a fix whose times are known is kept, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.loop.candidates import WORTH
from whyidle.engine.trial.loop.trial_result import (
    UNTOLD,
    ArmFactory,
    RejectionReason,
    TrialResult,
    harm_reason,
)
from whyidle.engine.trial.statistics.background_load import compare_load
from whyidle.engine.trial.statistics.gradient_noise import estimate_scale
from whyidle.engine.trial.statistics.memory_leak import MemoryLeak, find_leaks, goes_on
from whyidle.engine.trial.statistics.per_sample_timing import batch_factor, changes_batch
from whyidle.engine.trial.statistics.rank_equivalence import (
    baseline_by_rank,
    check_all_ranks,
    fewest_losses,
)
from whyidle.engine.trial.statistics.speedup import SpeedupEstimate

HARM = 0.75
"""what is slower than this in all, and slower in every pair, is called so, whatever chance may have
to do with it"""
LONGER = 3
"""times as many steps as an arm's, in which what fills up once has done so"""
UNMEASURED = "how much the samples of so large a batch teach (gradient noise scale) is not measured"


def decide_acceptance(
    found: TrialResult, bench: ArmFactory, bases: list[ArmResult], treats: list[ArmResult]
) -> None:
    """Keep it, or say why not."""
    gain = found.effect
    if gain is None:
        return
    if not is_proven_gain(gain):
        why = too_little(found, gain)
        found.hurried &= why.kind == "untold"
        more = ", and there was no time for more" if found.hurried else ""
        if not gain.low > 1.0 and (told := compare_load(bases, treats)):
            more += f", but {told}: try it again when the machine is quiet"
        found.reason = replace(why, text=why.text + more)
        return
    left = _remaining_job(found, bench, bases)
    if left is not None and found.once is not None and found.once.pays_after > left:
        longer = "" if bench.left else " (the real job is longer: --left 20000)"
        found.reason = RejectionReason("little", f"{found.once.describe_cost(left)}{longer}")
        return
    leak, slow = find_leaks(bases, treats, fmean(found.treated_s), left)
    found.notes += [one.describe_leak(fmean(found.treated_s)) for one in slow]
    if leak is not None and (told := _describe_leak(leak, found, bench)):
        found.reason = harm_reason(told)
        return
    found.check, found.untreated = check_all_ranks(
        found.candidate, baseline_by_rank(bases), treats, bench
    )
    if not found.check.holds:
        told = found.check.told
        found.reason = (
            harm_reason(told) if found.check.measured else RejectionReason("unjudged", told)
        )
    if found.check.holds and changes_batch(found.candidate):
        found.reason = _check_sample_worth(found, bench, gain)
    found.kept = found.reason is None


def is_proven_gain(gain: SpeedupEstimate) -> bool:
    """Whether it is faster beyond chance, and enough so."""
    return gain.low > 1.0 and gain.speedup >= WORTH


def too_little(found: TrialResult, gain: SpeedupEstimate) -> RejectionReason:
    """Why what it gains is not worth keeping it."""
    always = all(one > other for one, other in zip(found.treated_s, found.base_s, strict=True))
    if gain.high < 1.0:
        return RejectionReason("little", "slower")
    if gain.speedup < HARM and always:
        return RejectionReason("little", f"slower in {_format_pairs(gain.pairs)}")
    if gain.low > 1.0:
        return RejectionReason("little", f"worth under {WORTH - 1:.0%}")
    return replace(UNTOLD, text=f"{UNTOLD.text} in {_so_many(gain.pairs)}")


def _format_pairs(count: int) -> str:
    return "the one pair there was" if count == 1 else f"each of {count} pairs"


def _so_many(pairs: int) -> str:
    return f"{pairs} pair{'s' if pairs != 1 else ''}"


def _describe_leak(leak: MemoryLeak, found: TrialResult, bench: ArmFactory) -> str:
    """What is told of a leak; empty where a longer run shows that it is none, which is noted. Where
    there is no time for that, it is a guess."""
    told = leak.describe_leak(fmean(found.treated_s))
    steps = min(len(ran.told.marks) for ran in found.treats if ran.told)
    bench.say("longer with it, to know whether its memory goes on growing")
    ran = bench.lasting(LONGER * steps, steps)
    if ran is None:
        found.hurried = True
        return f"it may leak: {told}, as far as {steps} steps tell, and there was no time for more"
    if not ran.is_comparable:
        return f"it may leak: {told}, as far as {steps} steps tell: a longer run failed"
    if goes_on(leak, ran, steps):
        return f"it leaks: {told}"
    found.notes.append(f"{leak.where} memory grows in the first {steps} steps, and not on")
    return ""


def _remaining_job(
    found: TrialResult, bench: ArmFactory, bases: Sequence[ArmResult]
) -> float | None:
    """Steps that are left of the job, where anybody knows; one that ended by itself tells."""
    if bench.left is not None:
        return bench.left.remaining_steps(fmean(found.base_s))
    ended = [len(ran.told.marks) for ran in bases if ran.told and ran.ending == "finished"]
    return float(max(ended)) if ended else None


def _check_sample_worth(
    found: TrialResult, bench: ArmFactory, gain: SpeedupEstimate
) -> RejectionReason | None:
    """Note what samples of a larger batch still teach; why it is not kept, if that is less in all,
    however much of the doubt is in its favour."""
    if not bench.affordable():
        found.notes.append(f"{UNMEASURED}: there was no time for the run that tells (--budget)")
        return None
    bench.say("an untreated run whose gradients are compared, to know how large a batch may be")
    ran = bench.noisy(fewest_losses(found.untreated))
    seen = estimate_scale(ran.told) if ran.is_comparable and ran.told else None
    if seen is None:
        found.notes.append(f"{UNMEASURED}: too little was seen of its gradients")
        return None
    grown = batch_factor(found.candidate)
    found.notes.append(seen.describe_scale(grown, gain.speedup))
    best = gain.high * seen.sample_worth(grown, seen.high)
    little = "more samples in a second, and less is learned from them"
    return None if best > 1.0 else RejectionReason("little", little)
