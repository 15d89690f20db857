"""Compares every rank of the treated arms with the same rank of untreated arms, and runs further
untreated arms where the first comparison fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from whyidle import catalog
from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.trial_result import ArmFactory
from whyidle.fix.statistics.loss_equivalence import (
    BaselineRuns,
    LossCheck,
    are_identical,
    check_losses,
)
from whyidle.model.diagnosis import Consent

SWAYED, MORE = 2, 2
"""untreated runs with rounding noise, and repetitions of a job that is not reproducible, at most"""
Add = Callable[[BaselineRuns, ProcessReport], BaselineRuns]
"""adds the report of a further run to a baseline"""


def check_all_ranks(
    candidate: Candidate,
    known: Mapping[int, BaselineRuns],
    treats: Sequence[ArmResult],
    bench: ArmFactory,
) -> tuple[LossCheck, Mapping[int, BaselineRuns]]:
    """Compare treated arms with the baseline ``known``; return the check, and the baseline by rank,
    extended as long as they differ."""
    redrawn, compiled = _random_number_changes(candidate, known)
    if compiled and not redrawn:
        bench.say("with it, and with the random numbers of uncompiled code")
        result = bench.drawn(fewest_losses(known))
        redrawn, treats = not result.is_comparable, [result] if result.is_comparable else treats
    check = worst_check(candidate.consent, known, treats, redrawn=redrawn)
    for say, run, add in _further_baselines(candidate.consent, known, bench, redrawn=redrawn):
        if check.holds:
            break
        bench.say(say)
        result = run()
        if result.is_comparable:
            known = add_baseline(known, result, add)
            check = worst_check(candidate.consent, known, treats, redrawn=redrawn)
    return check, known


def _random_number_changes(
    candidate: Candidate, known: Mapping[int, BaselineRuns]
) -> tuple[bool, bool]:
    """Whether the fix may change random numbers, and whether only compiled code does so, which can
    be set to draw the original ones."""
    draws = {catalog.find_knob(edit.knob).draws for edit in candidate.edits}
    drew = any(one.base.drew is not False for one in known.values())
    return "others" in draws, drew and "others in steps" in draws


def fewest_losses(known: Mapping[int, BaselineRuns]) -> int:
    """Number of losses that all untreated ranks have."""
    return min((len(one.base.marks) for one in known.values()), default=0)


def _further_baselines(
    consent: Consent, known: Mapping[int, BaselineRuns], bench: ArmFactory, *, redrawn: bool
) -> list[tuple[str, Callable[[], ArmResult], Add]]:
    """Further untreated runs: the progress message, the run, and how it extends the baseline."""
    if consent == "none" and all(one.is_repeatable for one in known.values()):
        return []
    if redrawn or consent not in ("none", "rounding"):
        text = "a run without it with other seeds, to measure their effect"
        return [(text, bench.other, lambda one, report: replace(one, other=report))]
    if any(
        one.run_difference is not None and not one.run_difference.may_be_rounding
        for one in known.values()
    ):
        text = "another run without it, to measure the variation"
        return [
            (text, bench.base, lambda one, report: replace(one, more=(*one.more, report)))
        ] * MORE
    done = max((len(one.swayed) for one in known.values()), default=0)
    text = "a run without it with rounding noise, to measure its effect"
    return [
        (
            text,
            partial(bench.swayed, 1 + seed, fewest_losses(known)),
            lambda one, report: replace(one, swayed=(*one.swayed, report)),
        )
        for seed in range(done, SWAYED)
    ]


def baseline_by_rank(bases: Sequence[ArmResult]) -> dict[int, BaselineRuns]:
    """The baseline of each rank: the first arm, one that differs if any, and the others."""
    return {
        rank: _untreated_runs(
            report, [later for arm in bases[1:] if (later := arm.ranks.get(rank))]
        )
        for rank, report in bases[0].ranks.items()
    }


def _untreated_runs(first: ProcessReport, later: Sequence[ProcessReport]) -> BaselineRuns:
    odd = [one for one in later if not are_identical(first.losses, one.losses)]
    if not odd:
        return BaselineRuns(first, later[0] if later else None)
    return BaselineRuns(first, odd[0], more=odd[1:])


def add_baseline(
    known: Mapping[int, BaselineRuns], arm: ArmResult, add: Add
) -> dict[int, BaselineRuns]:
    """Extend the baseline by a further untreated run."""
    return {
        rank: one if (report := arm.ranks.get(rank)) is None else add(one, report)
        for rank, one in known.items()
    }


def worst_check(
    consent: Consent,
    known: Mapping[int, BaselineRuns],
    treats: Sequence[ArmResult],
    *,
    redrawn: bool,
) -> LossCheck:
    """The first failed check, or else that of the first rank."""
    checks = [
        _check_rank(rank, consent, baseline, arm, redrawn=redrawn)
        for arm in treats
        for rank, baseline in known.items()
    ]
    broken = (check for check in checks if not check.holds)
    return next(broken, checks[0] if checks else LossCheck(False, "no rank reported a loss"))


def _check_rank(
    rank: int, consent: Consent, baseline: BaselineRuns, arm: ArmResult, *, redrawn: bool
) -> LossCheck:
    report = arm.ranks.get(rank)
    if report is None:
        return LossCheck(False, f"rank {rank} reported nothing")
    check = check_losses(consent, baseline, report, redrawn=redrawn)
    several = not check.holds and len(arm.ranks) > 1
    return replace(check, explanation=f"rank {rank}: {check.explanation}") if several else check
