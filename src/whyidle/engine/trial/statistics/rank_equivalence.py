"""Every rank of every treated arm, held against the same rank of the untreated ones, and where it
does not hold against what else the untreated job may become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from whyidle import catalog
from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.loop.candidates import Candidate
from whyidle.engine.trial.loop.trial_result import ArmFactory
from whyidle.engine.trial.statistics.loss_equivalence import (
    BaselineRuns,
    LossCheck,
    are_identical,
    check_losses,
)
from whyidle.model.diagnosis import Consent

SWAYED, MORE = 2, 2
"""untreated runs with other rounding, and of a job that does not repeat itself further ones, at
most"""
Add = Callable[[BaselineRuns, ProcessReport], BaselineRuns]
"""what a further run says of the untreated job"""


def check_all_ranks(
    candidate: Candidate,
    known: Mapping[int, BaselineRuns],
    treats: Sequence[ArmResult],
    bench: ArmFactory,
) -> tuple[LossCheck, Mapping[int, BaselineRuns]]:
    """Whether treated arms hold against what is ``known`` of the untreated job, and what that came
    to: what does not hold at first is held against what else the untreated job may become."""
    redrawn, compiled = _random_number_changes(candidate, known)
    if compiled and not redrawn:
        bench.say("with it, but with the random numbers of code that is not compiled")
        ran = bench.drawn(fewest_losses(known))
        redrawn, treats = not ran.is_comparable, [ran] if ran.is_comparable else treats
    check = worst_check(candidate.consent, known, treats, redrawn=redrawn)
    for say, run, add in _further_baselines(candidate.consent, known, bench, redrawn=redrawn):
        if check.holds:
            break
        bench.say(say)
        ran = run()
        if ran.is_comparable:
            known = add_baseline(known, ran, add)
            check = worst_check(candidate.consent, known, treats, redrawn=redrawn)
    return check, known


def _random_number_changes(
    candidate: Candidate, known: Mapping[int, BaselineRuns]
) -> tuple[bool, bool]:
    """Whether with the fix other random numbers may be drawn, and whether compiled code draws some,
    which can be told to draw the same."""
    draws = {catalog.find_knob(edit.knob).draws for edit in candidate.edits}
    drew = any(one.base.drew is not False for one in known.values())
    redrawn = "others" in draws or (drew and "others for good" in draws)
    return redrawn, drew and "others in steps" in draws


def fewest_losses(known: Mapping[int, BaselineRuns]) -> int:
    """As many as all ranks of the untreated job made."""
    return min((len(one.base.marks) for one in known.values()), default=0)


def _further_baselines(
    consent: Consent, known: Mapping[int, BaselineRuns], bench: ArmFactory, *, redrawn: bool
) -> list[tuple[str, Callable[[], ArmResult], Add]]:
    """Further untreated runs that may be held against, what is said of each, and what each is."""
    if consent == "none" and all(one.is_repeatable for one in known.values()):
        return []
    if redrawn or consent not in ("none", "rounding"):
        told = "an untreated run with other seeds, to know how far apart those are"
        return [(told, bench.other, _with_other_seeds)]
    if any(
        one.run_difference is not None and not one.run_difference.may_be_rounding
        for one in known.values()
    ):
        told = "an untreated run more, to know how far apart those are"
        return [(told, bench.base, _again_more)] * MORE
    done = max((len(one.swayed) for one in known.values()), default=0)
    told = "an untreated run with other rounding, to know how far that goes"
    return [
        (told, partial(bench.swayed, 1 + seed, fewest_losses(known)), _with_other_rounding)
        for seed in range(done, SWAYED)
    ]


def _with_other_seeds(one: BaselineRuns, told: ProcessReport) -> BaselineRuns:
    return replace(one, other=told)


def _with_other_rounding(one: BaselineRuns, told: ProcessReport) -> BaselineRuns:
    return replace(one, swayed=(*one.swayed, told))


def _again_more(one: BaselineRuns, told: ProcessReport) -> BaselineRuns:
    return replace(one, more=(*one.more, told))


def baseline_by_rank(bases: Sequence[ArmResult]) -> dict[int, BaselineRuns]:
    """What each rank of the untreated arms told: the first, and one that differs from it, or else
    the second; and the others, where it differs."""
    return {
        rank: _untreated(told, [one for ran in bases[1:] if (one := ran.ranks.get(rank))])
        for rank, told in bases[0].ranks.items()
    }


def _untreated(first: ProcessReport, later: Sequence[ProcessReport]) -> BaselineRuns:
    odd = [one for one in later if not are_identical(first.losses, one.losses)]
    if not odd:
        return BaselineRuns(first, later[0] if later else None)
    return BaselineRuns(first, odd[0], more=odd[1:])


def add_baseline(
    known: Mapping[int, BaselineRuns], ran: ArmResult, add: Add
) -> dict[int, BaselineRuns]:
    """The same with a further untreated run."""
    return {
        rank: one if (told := ran.ranks.get(rank)) is None else add(one, told)
        for rank, one in known.items()
    }


def worst_check(
    consent: Consent,
    known: Mapping[int, BaselineRuns],
    treats: Sequence[ArmResult],
    *,
    redrawn: bool,
) -> LossCheck:
    """The first check that does not hold, or else that of the first rank."""
    checks = [
        _check_rank(rank, consent, one, ran, redrawn=redrawn)
        for ran in treats
        for rank, one in known.items()
    ]
    broken = (check for check in checks if not check.holds)
    return next(broken, checks[0] if checks else LossCheck(False, "nobody told a loss"))


def _check_rank(
    rank: int, consent: Consent, one: BaselineRuns, ran: ArmResult, *, redrawn: bool
) -> LossCheck:
    told = ran.ranks.get(rank)
    if told is None:
        return LossCheck(False, f"rank {rank} told nothing")
    check = check_losses(consent, one, told, redrawn=redrawn)
    several = not check.holds and len(ran.ranks) > 1
    return replace(check, told=f"rank {rank}: {check.told}") if several else check
