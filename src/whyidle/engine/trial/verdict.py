"""Whether a fix whose times are known is kept, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.beside import beside
from whyidle.engine.trial.candidates import WORTH
from whyidle.engine.trial.judgement import UNTOLD, Bench, Judgement, Reason, harm
from whyidle.engine.trial.leak import Leak, goes_on, leaks
from whyidle.engine.trial.noise import scale
from whyidle.engine.trial.pair import Effect
from whyidle.engine.trial.same import fewest, hold, untreated
from whyidle.engine.trial.sized import resized, times

HARM = 0.75
"""what is slower than this in all, and slower in every pair, is called so, whatever chance may have
to do with it"""
LONGER = 3
"""times as many steps as an arm's, in which what fills up once has done so"""
UNMEASURED = "how much the samples of so large a batch teach (gradient noise scale) is not measured"


def decide(found: Judgement, bench: Bench, bases: list[Ran], treats: list[Ran]) -> None:
    """Keep it, or say why not."""
    gain = found.effect
    if gain is None:
        return
    if not gains(gain):
        why = too_little(found, gain)
        found.hurried &= why.kind == "untold"
        more = ", and there was no time for more" if found.hurried else ""
        if not gain.low > 1.0 and (told := beside(bases, treats)):
            more += f", but {told}: try it again when the machine is quiet"
        found.reason = replace(why, text=why.text + more)
        return
    left = _left(found, bench, bases)
    if left is not None and found.once is not None and found.once.pays_after > left:
        longer = "" if bench.left else " (the real job is longer: --left 20000)"
        found.reason = Reason("little", f"{found.once.told(left)}{longer}")
        return
    leak, slow = leaks(bases, treats, fmean(found.treated_s), left)
    found.notes += [one.told(fmean(found.treated_s)) for one in slow]
    if leak is not None and (told := _leaking(leak, found, bench)):
        found.reason = harm(told)
        return
    found.check, found.untreated = hold(found.candidate, untreated(bases), treats, bench)
    if not found.check.holds:
        told = found.check.told
        found.reason = harm(told) if found.check.measured else Reason("unjudged", told)
    if found.check.holds and resized(found.candidate):
        found.reason = _teaches(found, bench, gain)
    found.kept = found.reason is None


def gains(gain: Effect) -> bool:
    """Whether it is faster beyond chance, and enough so."""
    return gain.low > 1.0 and gain.speedup >= WORTH


def too_little(found: Judgement, gain: Effect) -> Reason:
    """Why what it gains is not worth keeping it."""
    always = all(one > other for one, other in zip(found.treated_s, found.base_s, strict=True))
    if gain.high < 1.0:
        return Reason("little", "slower")
    if gain.speedup < HARM and always:
        return Reason("little", f"slower in {_pairs(gain.pairs)}")
    if gain.low > 1.0:
        return Reason("little", f"worth under {WORTH - 1:.0%}")
    return replace(UNTOLD, text=f"{UNTOLD.text} in {_so_many(gain.pairs)}")


def _pairs(count: int) -> str:
    return "the one pair there was" if count == 1 else f"each of {count} pairs"


def _so_many(pairs: int) -> str:
    return f"{pairs} pair{'s' if pairs != 1 else ''}"


def _leaking(leak: Leak, found: Judgement, bench: Bench) -> str:
    """What is told of a leak; empty where a longer run shows that it is none, which is noted. Where
    there is no time for that, it is a guess."""
    told = leak.told(fmean(found.treated_s))
    steps = min(len(ran.told.marks) for ran in found.treats if ran.told)
    bench.say("longer with it, to know whether its memory goes on growing")
    ran = bench.lasting(LONGER * steps, steps)
    if ran is None:
        found.hurried = True
        return f"it may leak: {told}, as far as {steps} steps tell, and there was no time for more"
    if not ran.good:
        return f"it may leak: {told}, as far as {steps} steps tell: a longer run failed"
    if goes_on(leak, ran, steps):
        return f"it leaks: {told}"
    found.notes.append(f"{leak.where} memory grows in the first {steps} steps, and not on")
    return ""


def _left(found: Judgement, bench: Bench, bases: Sequence[Ran]) -> float | None:
    """Steps that are left of the job, where anybody knows; one that ended by itself tells."""
    if bench.left is not None:
        return bench.left.of(fmean(found.base_s))
    ended = [len(ran.told.marks) for ran in bases if ran.told and ran.ending == "finished"]
    return float(max(ended)) if ended else None


def _teaches(found: Judgement, bench: Bench, gain: Effect) -> Reason | None:
    """Note what samples of a larger batch still teach; why it is not kept, if that is less in all,
    however much of the doubt is in its favour."""
    if not bench.affordable():
        found.notes.append(f"{UNMEASURED}: there was no time for the run that tells (--budget)")
        return None
    bench.say("an untreated run whose gradients are compared, to know how large a batch may be")
    ran = bench.noisy(fewest(found.untreated))
    seen = scale(ran.told) if ran.good and ran.told else None
    if seen is None:
        found.notes.append(f"{UNMEASURED}: too little was seen of its gradients")
        return None
    grown = times(found.candidate)
    found.notes.append(seen.told(grown, gain.speedup))
    best = gain.high * seen.worth(grown, seen.high)
    little = "more samples in a second, and less is learned from them"
    return None if best > 1.0 else Reason("little", little)
