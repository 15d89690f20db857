"""Every rank of every treated arm, held against the same rank of the untreated ones, and where it
does not hold against what else the untreated job may become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from whyidle import catalog
from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.candidates import Candidate
from whyidle.engine.trial.judgement import Bench
from whyidle.engine.trial.numbers import Check, Untreated, compare, same
from whyidle.engine.trial.told import Told
from whyidle.model.diagnosis import Consent

SWAYED, MORE = 2, 2
"""untreated runs with other rounding, and of a job that does not repeat itself further ones, at
most"""
Add = Callable[[Untreated, Told], Untreated]
"""what a further run says of the untreated job"""


def hold(
    candidate: Candidate, known: Mapping[int, Untreated], treats: Sequence[Ran], bench: Bench
) -> tuple[Check, Mapping[int, Untreated]]:
    """Whether treated arms hold against what is ``known`` of the untreated job, and what that came
    to: what does not hold at first is held against what else the untreated job may become."""
    redrawn, compiled = _redraws(candidate, known)
    if compiled and not redrawn:
        bench.say("with it, but with the random numbers of code that is not compiled")
        ran = bench.drawn(fewest(known))
        redrawn, treats = not ran.good, [ran] if ran.good else treats
    check = worst(candidate.consent, known, treats, redrawn=redrawn)
    for say, run, add in _more(candidate.consent, known, bench, redrawn=redrawn):
        if check.holds:
            break
        bench.say(say)
        ran = run()
        if ran.good:
            known = beside(known, ran, add)
            check = worst(candidate.consent, known, treats, redrawn=redrawn)
    return check, known


def _redraws(candidate: Candidate, known: Mapping[int, Untreated]) -> tuple[bool, bool]:
    """Whether with the fix other random numbers may be drawn, and whether compiled code draws some,
    which can be told to draw the same."""
    draws = {catalog.find_knob(edit.knob).draws for edit in candidate.edits}
    drew = any(one.base.drew is not False for one in known.values())
    redrawn = "others" in draws or (drew and "others for good" in draws)
    return redrawn, drew and "others in steps" in draws


def fewest(known: Mapping[int, Untreated]) -> int:
    """As many as all ranks of the untreated job made."""
    return min((len(one.base.marks) for one in known.values()), default=0)


def _more(
    consent: Consent, known: Mapping[int, Untreated], bench: Bench, *, redrawn: bool
) -> list[tuple[str, Callable[[], Ran], Add]]:
    """Further untreated runs that may be held against, what is said of each, and what each is."""
    if consent == "none" and all(one.steady for one in known.values()):
        return []
    if redrawn or consent not in ("none", "rounding"):
        told = "an untreated run with other seeds, to know how far apart those are"
        return [(told, bench.other, _other)]
    if any(one.varies is not None and not one.varies.rounded for one in known.values()):
        told = "an untreated run more, to know how far apart those are"
        return [(told, bench.base, _again_more)] * MORE
    done = max((len(one.swayed) for one in known.values()), default=0)
    told = "an untreated run with other rounding, to know how far that goes"
    return [
        (told, partial(bench.swayed, 1 + seed, fewest(known)), _swayed)
        for seed in range(done, SWAYED)
    ]


def _other(one: Untreated, told: Told) -> Untreated:
    return replace(one, other=told)


def _swayed(one: Untreated, told: Told) -> Untreated:
    return replace(one, swayed=(*one.swayed, told))


def _again_more(one: Untreated, told: Told) -> Untreated:
    return replace(one, more=(*one.more, told))


def untreated(bases: Sequence[Ran]) -> dict[int, Untreated]:
    """What each rank of the untreated arms told: the first, and one that differs from it, or else
    the second; and the others, where it differs."""
    return {
        rank: _untreated(told, [one for ran in bases[1:] if (one := ran.ranks.get(rank))])
        for rank, told in bases[0].ranks.items()
    }


def _untreated(first: Told, later: Sequence[Told]) -> Untreated:
    odd = [one for one in later if not same(first.losses, one.losses)]
    if not odd:
        return Untreated(first, later[0] if later else None)
    return Untreated(first, odd[0], more=odd[1:])


def beside(known: Mapping[int, Untreated], ran: Ran, add: Add) -> dict[int, Untreated]:
    """The same with a further untreated run."""
    return {
        rank: one if (told := ran.ranks.get(rank)) is None else add(one, told)
        for rank, one in known.items()
    }


def worst(
    consent: Consent, known: Mapping[int, Untreated], treats: Sequence[Ran], *, redrawn: bool
) -> Check:
    """The first check that does not hold, or else that of the first rank."""
    checks = [
        _of(rank, consent, one, ran, redrawn=redrawn)
        for ran in treats
        for rank, one in known.items()
    ]
    broken = (check for check in checks if not check.holds)
    return next(broken, checks[0] if checks else Check(False, "nobody told a loss"))


def _of(rank: int, consent: Consent, one: Untreated, ran: Ran, *, redrawn: bool) -> Check:
    told = ran.ranks.get(rank)
    if told is None:
        return Check(False, f"rank {rank} told nothing")
    check = compare(consent, one, told, redrawn=redrawn)
    several = not check.holds and len(ran.ranks) > 1
    return replace(check, told=f"rank {rank}: {check.told}") if several else check
