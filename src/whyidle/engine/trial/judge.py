"""One fix against the job without it: pairs in turn, in turned order, until they tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean

from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.candidates import WORTH, Candidate
from whyidle.engine.trial.chance import ALONE, share
from whyidle.engine.trial.cold import warmed
from whyidle.engine.trial.leak import leaks
from whyidle.engine.trial.noise import scale
from whyidle.engine.trial.numbers import Check, Untreated
from whyidle.engine.trial.once import Left, Once, once
from whyidle.engine.trial.pair import Effect, common, effect, startup_s, step_s
from whyidle.engine.trial.same import beside, untreated, worst
from whyidle.engine.trial.sized import resized, times, unlike, work_s
from whyidle.engine.trial.told import Told
from whyidle.model.diagnosis import Consent, Edit, Searched
from whyidle.model.knobs import REDRAWING, REDRAWING_IN_STEPS

FEWEST, MOST = 2, 4
"""pairs"""
SWAYED = 2
"""untreated runs with other rounding, at most"""
BACK = "rolled back"
"""so begins why a fix is not kept that did harm"""
HARM = 0.75
"""a first pair that is slower than this needs no second"""
HOPELESS = 0.005
"""a chance this small of being worth something ends it as well"""


@dataclass(frozen=True, slots=True)
class Bench:
    """What runs the arms: without the fix, with it, without it but with other seeds; without it
    but with other rounding, which is random from a seed, for so many steps; with it, for so many
    steps, where compiled code draws its random numbers as other code does (``drawn``); and without
    it, for so many steps, where gradients are compared from step to step (``noisy``)."""

    base: Callable[[], Ran]
    treated: Callable[[], Ran]
    other: Callable[[], Ran]
    swayed: Callable[[int, int], Ran]
    drawn: Callable[[int], Ran]
    noisy: Callable[[int], Ran]
    affordable: Callable[[], bool]
    """whether there is time for another pair"""
    say: Callable[[str], None]
    left: Left | None = None
    """what of the job is still to run, where that is known"""


@dataclass(slots=True)
class Judgement:
    """What became of a fix. Times are seconds of a steady step, one for each arm, and where a fix
    gives steps more samples, of as many samples as a step has without it; ``once`` is what
    the fix costs once, before the steady part (compiling, starting workers); ``searched`` are the
    numbers of its knob that were tried before, to choose one; ``notes`` are sentences of what else
    was seen, without a full stop; ``untreated`` is what it was held against, rank by rank."""

    candidate: Candidate
    kept: bool = False
    why: str = ""
    effect: Effect | None = None
    check: Check | None = None
    base_s: list[float] = field(default_factory=list)
    treated_s: list[float] = field(default_factory=list)
    once: Once | None = None
    untreated: Mapping[int, Untreated] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    searched: list[Searched] = field(default_factory=list)

    @property
    def asked(self) -> bool:
        """Whether its times were asked for a gain: what failed before was not."""
        return self.effect is not None and self.effect.pairs >= FEWEST

    @property
    def broken(self) -> bool:
        """Whether it did harm: the job failed with it, leaked, or computed something else."""
        return self.why.startswith(BACK)

    @property
    def proven(self) -> bool:
        """Whether it is faster beyond chance, whatever became of it."""
        return self.asked and self.effect is not None and self.effect.low > 1.0


def judge(
    candidate: Candidate,
    bench: Bench,
    alike: Sequence[Sequence[float]],
    chance: float = ALONE,
) -> Judgement:
    """Try it; ``chance`` is what it may have of being kept although it brings nothing."""
    found = Judgement(candidate)
    bases: list[Ran] = []
    treats: list[Ran] = []
    last = False
    while not last:
        bench.say(f"pair {len(bases) + 1}, of {MOST} at most")
        found.why = _pair(found, bench, bases, treats)
        if found.why:
            return found
        last = _look(found, bench, bases, treats, (alike, chance))
    _verdict(found, bench, bases, treats)
    found.candidate = replace(candidate, edits=_taken(candidate, treats))
    return found


def _look(
    found: Judgement,
    bench: Bench,
    bases: Sequence[Ran],
    treats: Sequence[Ran],
    asked: tuple[Sequence[Sequence[float]], float],
) -> bool:
    """What the times say by now; whether more pairs are not to be had, or would change nothing."""
    alike, chance = asked
    _times(found, _told(bases), _told(treats))
    pairs = len(bases)
    if pairs < FEWEST:
        found.effect = effect(found.base_s, found.treated_s, alike, chance)
        return found.effect.speedup < HARM
    last = pairs >= MOST or not bench.affordable()
    part = share(chance, pairs - FEWEST + 1, last=last)
    gain = found.effect = effect(found.base_s, found.treated_s, alike, part)
    hopeless = effect(found.base_s, found.treated_s, alike, HOPELESS).high < WORTH
    return last or hopeless or _gains(gain)


def _gains(gain: Effect) -> bool:
    """Whether it is faster beyond chance, and enough so."""
    return gain.low > 1.0 and gain.speedup >= WORTH


def _told(arms: Sequence[Ran]) -> list[Told]:
    return [ran.told for ran in arms if ran.told is not None]


def _times(found: Judgement, base: Sequence[Told], treated: Sequence[Told]) -> None:
    steps, others = common(base, treated)
    found.base_s = [step_s(told, steps) for told in base]
    found.treated_s = [step_s(told, others) for told in treated]
    if resized(found.candidate):
        found.base_s, found.treated_s = work_s(base, treated)
    found.once = once(
        [startup_s(told, steps) for told in base],
        [startup_s(told, others) for told in treated],
        (fmean(found.base_s), fmean(found.treated_s)),
    )


def _pair(found: Judgement, bench: Bench, bases: list[Ran], treats: list[Ran]) -> str:
    """Run both arms, in turned order every other time; why it ends here, if it does."""
    arms = [(bench.base, bases), (bench.treated, treats)]
    for run, into in arms if len(bases) % 2 == 0 else reversed(arms):
        ran, told = warmed(run, found.notes)
        if told:
            found.notes.append(told)
        if into is bases and not ran.good:
            return f"the job without it {_ended(ran)}: not judged"
        if into is treats and (why := _failed(ran, found.candidate)):
            return why
        into.append(ran)
    return unlike(found.candidate, bases[-1], treats[-1])


def _failed(ran: Ran, candidate: Candidate) -> str:
    """Why the treated arm cannot be compared."""
    if not ran.good:
        return f"{BACK}: with it the job {_ended(ran)}"
    if not _taken(candidate, [ran]):
        own = [ran.declined[edit.knob] for edit in candidate.edits if edit.knob in ran.declined]
        return f"declined: {next(iter(own), 'nothing in the job took it up')}"
    return ""


def _taken(candidate: Candidate, treats: Sequence[Ran]) -> tuple[Edit, ...]:
    """Its edits that took hold in every arm; of the environment's that cannot be told."""
    return tuple(
        edit
        for edit in candidate.edits
        if edit.knob.startswith("env.") or all(ran.applied.get(edit.knob) for ran in treats)
    )


def _ended(ran: Ran) -> str:
    lines = ran.said.strip().splitlines()
    last = f" ({lines[-1][:160]})" if lines and ran.ending == "crashed" else ""
    words = {"crashed": "crashed", "hung": "hung", "silent": "made no steps"}
    if ran.lost:
        last = f" (rank {ran.lost[0]} died){last}"
    memory = any(word in ran.said for word in ("OutOfMemoryError", "MemoryError", "oom-kill"))
    return "ran out of memory" if memory else f"{words.get(ran.ending, ran.ending)}{last}"


def _verdict(found: Judgement, bench: Bench, bases: list[Ran], treats: list[Ran]) -> None:
    """Keep it, or say why not."""
    gain = found.effect
    if gain is None:
        return
    if not _gains(gain):
        found.why = _too_little(gain)
        return
    left = _left(found, bench, bases)
    if left is not None and found.once is not None and found.once.pays_after > left:
        longer = "" if bench.left else " (the real job is longer: --left 20000)"
        found.why = f"{found.once.told(left)}{longer}"
        return
    leak, slow = leaks(bases, treats, fmean(found.treated_s), left)
    found.notes += [one.told(fmean(found.treated_s)) for one in slow]
    if leak is not None:
        found.why = f"{BACK}: it leaks: {leak.told(fmean(found.treated_s))}"
        return
    found.check = _checked(found, bench, bases, treats)
    found.why = "" if found.check.holds else f"{BACK}: {found.check.told}"
    if found.check.holds and resized(found.candidate):
        found.why = _teaches(found, bench, gain)
    found.kept = not found.why


def _teaches(found: Judgement, bench: Bench, gain: Effect) -> str:
    """Note what samples of a larger batch still teach; why it is not kept, if that is less in all,
    however much of the doubt is in its favour."""
    if not bench.affordable():
        return ""
    bench.say("an untreated run whose gradients are compared, to know how large a batch may be")
    ran = bench.noisy(_steps(found.untreated))
    seen = scale(ran.told) if ran.good and ran.told else None
    if seen is None:
        return ""
    grown = times(found.candidate)
    found.notes.append(seen.told(grown, gain.speedup))
    best = gain.high * seen.worth(grown, seen.high)
    return "" if best > 1.0 else "more samples in a second, and less is learned from them"


def _left(found: Judgement, bench: Bench, bases: Sequence[Ran]) -> float | None:
    """Steps that are left of the job, where anybody knows; one that ended by itself tells."""
    if bench.left is not None:
        return bench.left.of(fmean(found.base_s))
    ended = [len(ran.told.marks) for ran in bases if ran.told and ran.ending == "finished"]
    return float(max(ended)) if ended else None


def _too_little(gain: Effect) -> str:
    if gain.high < 1.0 or gain.speedup < HARM:
        return "slower"
    if gain.low > 1.0:
        return f"worth under {WORTH - 1:.0%}"
    return "no gain that could be told from chance"


def _checked(found: Judgement, bench: Bench, bases: list[Ran], treats: list[Ran]) -> Check:
    """Hold the losses of every rank of every treated arm against those of the untreated ones."""
    check, found.untreated = hold(found.candidate, untreated(bases), treats, bench)
    return check


def hold(
    candidate: Candidate, known: Mapping[int, Untreated], treats: Sequence[Ran], bench: Bench
) -> tuple[Check, Mapping[int, Untreated]]:
    """Whether treated arms hold against what is ``known`` of the untreated job, and what that came
    to: what does not hold at first is held against what else the untreated job may become."""
    redrawn, compiled = _redraws(candidate, known)
    if compiled and not redrawn:
        bench.say("with it, but with the random numbers of code that is not compiled")
        ran = bench.drawn(_steps(known))
        redrawn, treats = not ran.good, [ran] if ran.good else treats
    check = worst(candidate.consent, known, treats, redrawn=redrawn)
    for say, run in _more(candidate.consent, known, bench, redrawn=redrawn):
        if check.holds:
            break
        bench.say(say)
        ran = run()
        if ran.good:
            known = beside(known, ran)
            check = worst(candidate.consent, known, treats, redrawn=redrawn)
    return check, known


def _redraws(candidate: Candidate, known: Mapping[int, Untreated]) -> tuple[bool, bool]:
    """Whether with the fix other random numbers may be drawn, and whether compiled code draws some,
    which can be told to draw the same."""
    knobs = {edit.knob for edit in candidate.edits}
    drew = any(one.base.drew is not False for one in known.values())
    return bool(knobs & REDRAWING), drew and bool(knobs & REDRAWING_IN_STEPS)


def _steps(known: Mapping[int, Untreated]) -> int:
    """As many as all ranks of the untreated job made."""
    return min((len(one.base.marks) for one in known.values()), default=0)


def _more(
    consent: Consent, known: Mapping[int, Untreated], bench: Bench, *, redrawn: bool
) -> list[tuple[str, Callable[[], Ran]]]:
    """Further untreated runs that may be held against, and what is said of each."""
    if consent == "none" and all(one.steady for one in known.values()):
        return []
    if redrawn or consent not in ("none", "rounding"):
        return [("an untreated run with other seeds, to know how far apart those are", bench.other)]
    done = max((len(one.swayed) for one in known.values()), default=0)
    told = "an untreated run with other rounding, to know how far that goes"
    return [(told, partial(bench.swayed, 1 + seed, _steps(known))) for seed in range(done, SWAYED)]
