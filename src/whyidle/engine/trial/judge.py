"""One fix against the job without it: pairs in turn, in turned order, until they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import msgspec

from whyidle.engine.trial import said
from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.beside import beside
from whyidle.engine.trial.candidates import WORTH, Candidate
from whyidle.engine.trial.chance import ALONE, share
from whyidle.engine.trial.cold import warmed
from whyidle.engine.trial.judgement import FEWEST, MOST, Bench, Judgement, Reason, declined, harm
from whyidle.engine.trial.once import once
from whyidle.engine.trial.pair import common, compiles, effect, startup_s, step_s
from whyidle.engine.trial.sized import resized, unlike, work_s
from whyidle.engine.trial.told import Told
from whyidle.engine.trial.verdict import decide, gains
from whyidle.model.diagnosis import Edit

RUIN = 0.1
"""a first pair that is slower than this needs no second. Less may be the machine's, and nobody can
tell from one pair: fixes that were told 1.07 and 1.27 were 0.70 and 0.49 times as fast in a first
pair beside other people's programs, and 1.12 and 1.27 in full. A second pair costs two arms, and of
two that agree it ends (`HOPELESS`)"""
PAST = 2
"""steps beyond the last one that was made: an arm is stopped within a step's end, and what comes
behind that still belongs to it"""
PROMISING = 1.25
"""times as fast by its middle: with no time left and nothing kept, another pair is worth more than
the rest of the budget. Two pairs beside other programs told 0.64 to 11 of what is 2.3 by hand"""
HOPELESS = 0.1
"""a chance this small of being worth something ends it as well: what brings nothing then takes 4.5
to 5.2 of six pairs, 5.8 with a chance of 0.005, and a gain of a twentieth or more is kept as often
(simulated, runs that scatter by 3 to 10 %)"""


def judge(
    candidate: Candidate,
    bench: Bench,
    alike: Sequence[Sequence[float]],
    chance: float = ALONE,
) -> Judgement:
    """Try it; ``chance`` is what it may have of being kept although it brings nothing."""
    found = Judgement(candidate)
    last = False
    while not last:
        found.reason = pair(found, bench)
        if found.reason:
            if found.reason.kind == "declined":
                found.effect = None
            return found
        last = _look(found, bench, (alike, chance))
    decide(found, bench, found.bases, found.treats)
    found.candidate = replace(candidate, edits=_taken(candidate, found.treats))
    return found


def _look(found: Judgement, bench: Bench, asked: tuple[Sequence[Sequence[float]], float]) -> bool:
    """What the times say by now; whether more pairs are not to be had, or would change nothing."""
    alike, chance = asked
    pairs = len(found.bases)
    if pairs < FEWEST:
        found.effect = effect(found.base_s, found.treated_s, alike, chance)
        ruin = found.effect.speedup < RUIN
        found.hurried = not ruin and bench.over(found.pair_s)
        return ruin or found.hurried
    middle = effect(found.base_s, found.treated_s, alike, HOPELESS)
    ahead = middle.speedup >= PROMISING and bench.pressing()
    late = pairs < MOST and (not (bench.affordable() or ahead) or bench.over(found.pair_s))
    last = pairs >= MOST or late
    part = share(chance, pairs - FEWEST + 1, last=last)
    gain = found.effect = effect(found.base_s, found.treated_s, alike, part)
    hopeless = middle.high < WORTH and not beside(found.bases, found.treats)
    found.hurried = late and not hopeless and not gains(gain)
    return last or hopeless or gains(gain)


def pair(found: Judgement, bench: Bench) -> Reason | None:
    """Run both arms once more, in turned order every other time, and take their times; why it ends
    here, if it does. The first arm of all has the fix: one that declines costs no more than it."""
    count = len(found.bases)
    bench.say(f"pair {count + 1}, of {MOST} at most")
    arms = [(bench.treated, found.treats), (bench.base, found.bases)]
    for run, into in arms if count % 2 == 0 else reversed(arms):
        ran, told = warmed(run, found.notes)
        if told:
            found.notes.append(told)
        if into is found.bases and not ran.good:
            return _alone(ran)
        if into is found.treats and (why := failed(ran, found.candidate)):
            return _blamed(found, bench, ran, why)
        into.append(ran)
    why = unlike(found.candidate, found.bases[-1], found.treats[-1])
    if not why:
        _times(found, _told(found.bases), _told(found.treats))
    return why


def _blamed(found: Judgement, bench: Bench, ran: Ran, why: Reason) -> Reason:
    """Why it ends where the arm with the fix has failed. The job may do so by itself, and later in
    time than a slower arm without the fix runs: it is run as many steps then."""
    if why.kind != "harm":
        return why
    base = found.bases[-1] if found.bases else bench.base()
    if alone := _alone(base):
        return alone
    usual, steps = (len(one.told.marks) if one.told else 0 for one in (base, ran))
    if ran.ending != "crashed" or steps < usual:
        return why
    bench.say(f"the job without it, to step {steps + PAST} as well")
    further = bench.reaching(steps + PAST, usual)
    if further is None:
        return replace(why, text=f"{why.text}; without it the job was not run to step {steps}")
    return (_alone(further) if further.ending == "crashed" else None) or why


def _alone(ran: Ran) -> Reason | None:
    """That the job fails without the fix, so that nothing is known of it; None where it does
    not."""
    return None if ran.good else Reason("unjudged", f"the job without it {_ended(ran)}: not judged")


def _told(arms: Sequence[Ran]) -> list[Told]:
    return [ran.told for ran in arms if ran.told is not None]


def _times(found: Judgement, base: Sequence[Told], treated: Sequence[Told]) -> None:
    steps, others = common(base, treated)
    whole = not any(map(compiles, treated))  # what the job compiled without it, the fix takes away
    found.base_s = [step_s(told, steps, whole=whole) for told in base]
    found.treated_s = [step_s(told, others, whole=whole) for told in treated]
    if resized(found.candidate):
        found.base_s, found.treated_s = work_s(base, treated)
    found.once = once(
        [startup_s(told, steps, whole=whole) for told in base],
        [startup_s(told, others, whole=whole) for told in treated],
        (fmean(found.base_s), fmean(found.treated_s)),
    )


def failed(ran: Ran, candidate: Candidate) -> Reason | None:
    """Why the treated arm cannot be compared; None where it can."""
    if ran.ending == "full":
        return Reason("unjudged", f"with it the job {_ended(ran)}: not judged")
    if not ran.good:
        return harm(f"with it the job {_ended(ran)}")
    if not _taken(candidate, [ran]):
        own = [ran.declined[edit.knob] for edit in candidate.edits if edit.knob in ran.declined]
        return declined("; ".join(dict.fromkeys(own)) or "nothing in the job took it up")
    return None


def _taken(candidate: Candidate, treats: Sequence[Ran]) -> tuple[Edit, ...]:
    """Its edits that took hold in every arm; of the environment's that cannot be told."""
    return tuple(
        _multiplied(edit, treats)
        for edit in candidate.edits
        if edit.knob.startswith("env.") or all(ran.applied.get(edit.knob) for ran in treats)
    )


def _multiplied(edit: Edit, treats: Sequence[Ran]) -> Edit:
    """With what it found, where it multiplies that: so that nothing else is ever multiplied by it,
    least of all what is so many times as large by then."""
    found = sorted({number for ran in treats for number in ran.multiplied.get(edit.knob, ())})
    return msgspec.structs.replace(edit, was=", ".join(map(str, found))) if found else edit


def _ended(ran: Ran) -> str:
    if ran.ending == "full":
        return f"was ended, as {ran.full} (TMPDIR names another place)"
    line = said.last(ran.said)
    last = f" ({line[:160]})" if line and ran.ending == "crashed" else ""
    words = {"crashed": "crashed", "hung": "hung", "silent": "made no steps"}
    if ran.lost:
        last = f" (rank {ran.lost[0]} died){last}"
    memory = any(word in ran.said for word in ("OutOfMemoryError", "MemoryError", "oom-kill"))
    return "ran out of memory" if memory else f"{words.get(ran.ending, ran.ending)}{last}"
