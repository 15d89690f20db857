"""Which number of a knob is fastest: those that the model proposes race, then the best is tried.

The race only chooses: what the best one gains is measured anew, in pairs, by whoever tries it, so
that the luck of a single arm is not taken for speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from whyidle import catalog
from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.loop.ab_test import failure_reason
from whyidle.engine.trial.loop.candidates import Candidate
from whyidle.engine.trial.loop.trial_result import RejectionReason
from whyidle.engine.trial.loop.trial_session import LAST_ARMS, LEAST_ARMS, TrialSession
from whyidle.engine.trial.loop.value_choice import choose_value, most_workers_here
from whyidle.engine.trial.statistics.speedup import step_s
from whyidle.engine.wording import summarize_edits
from whyidle.model.diagnosis import Edit, SearchedValue

SHARE = 0.2
"""of the time that is left, at most, goes into a race"""
MOST = 5
"""numbers in a race"""
NEIGHBOURS = 3
"""numbers that are a race: the model's, and one on either side, where there are so many"""


class ChosenValue(NamedTuple):
    """The candidate with the number to try, what was tried for it, and why none is worth a pair;
    None where one is."""

    candidate: Candidate
    searched: list[SearchedValue]
    why: RejectionReason | None = None


def choose_candidate_value(healing: TrialSession, candidate: Candidate) -> ChosenValue:
    """The candidate with the number that is fastest; as it was, where it has no number, or the time
    does not allow a race. Where the job took no number, or failed with each, a pair would show the
    same again."""
    candidate = _within_limits(candidate, most_workers_here())
    edit = next((one for one in candidate.edits if _has_values(one)), None)
    if edit is None:
        return ChosenValue(candidate, [])
    among = edit.among[: min(MOST, _affordable_arms(healing))]
    if len(among) < min(NEIGHBOURS, len(edit.among)):
        return ChosenValue(candidate, [])
    values = ", ".join(map(str, sorted(among)))
    healing.voice.show_stage(f"{candidate.fix}: which {edit.knob} of {values} is fastest")
    entries = [_with_value(candidate, edit, value) for value in among]
    rans = healing.race_values([healing.merged_edits(entry) for entry in entries])
    came = list(zip(among, entries, rans, strict=True))
    found = [_search_entry(edit.knob, value, ran) for value, _, ran in came]
    if steps_s := _step_times(found, rans):
        return ChosenValue(entries[among.index(_chosen(healing, steps_s, came))], found)
    whys = [failure_reason(ran, entry) for _, entry, ran in came if ran.ending != "outrun"]
    return ChosenValue(candidate, found, whys[0] if whys and all(whys) else None)


def _step_times(found: Sequence[SearchedValue], rans: Sequence[ArmResult]) -> dict[int, float]:
    """Seconds of a step by number, of those that came through; where none did, of those that took
    hold and were outrun, by the job without it then: a pair tells that more surely."""
    through = {one.value: one.step_s for one in found if one.ended == "through" and one.step_s}
    return through or {
        one.value: one.step_s
        for one, ran in zip(found, rans, strict=True)
        if one.ended == "early" and one.step_s and ran.applied.get(one.knob)
    }


def _chosen(
    healing: TrialSession,
    steps_s: dict[int, float],
    came: Sequence[tuple[int, Candidate, ArmResult]],
) -> int:
    """The number to try, start-ups counted where those of all are known."""
    startup_s = {
        value: max(ran.seconds - len(ran.told.marks) * steps_s[value], 0.0)
        for value, _, ran in came
        if value in steps_s and ran.told is not None and ran.ending in ("stopped", "finished")
    }
    whole = len(startup_s) == len(steps_s)
    left = healing.left.remaining_steps(min(steps_s.values())) if healing.left else None
    return choose_value(steps_s, startup_s=startup_s if whole else None, steps_left=left)


def _within_limits(candidate: Candidate, most: int | None) -> Candidate:
    """With no more workers than the limits of this process carry."""
    if most is None:
        return candidate
    found = [
        one for one in candidate.edits if catalog.find_knob(one.knob).counts_processes and one.among
    ]
    if not found or max(found[0].among) <= most:
        return candidate
    among = tuple(dict.fromkeys(min(value, most) for value in found[0].among))
    edit = msgspec.structs.replace(found[0], among=among)
    edits = tuple(edit if one is found[0] else one for one in candidate.edits)
    return _with_value(replace(candidate, edits=edits), edit, among[0])


def _has_values(edit: Edit) -> bool:
    return len(edit.among) > 1 and not catalog.find_knob(edit.knob).by_people


def _affordable_arms(healing: TrialSession) -> int:
    """Arms of a race, when a trial and the last arms must have their time as well."""
    spare = healing.left_s - (LEAST_ARMS + LAST_ARMS) * healing.arm_s
    return int(max(min(SHARE * healing.left_s, spare), 0.0) / max(healing.arm_s, 1e-9))


def _with_value(candidate: Candidate, edit: Edit, value: int) -> Candidate:
    """The candidate with another number, and what it then says."""
    if value == edit.value:
        return candidate
    edits = tuple(
        msgspec.structs.replace(one, value=value) if one is edit else one for one in candidate.edits
    )
    return replace(candidate, edits=edits, summary=summarize_edits(edits))


def _search_entry(knob: str, value: int, ran: ArmResult) -> SearchedValue:
    """What came of one number; of batches that are so many times as large, the seconds of as many
    samples as a step had."""
    sized = catalog.find_knob(knob).per_sample
    last = ran.rungs[max(ran.rungs)] if ran.rungs and not sized else None
    if ran.declined.get(knob) and not ran.applied.get(knob) and ran.ending == "outrun":
        return SearchedValue(knob=knob, value=value, step_s=None, ended="declined")
    if ran.ending == "outrun":
        return SearchedValue(knob=knob, value=value, step_s=last, ended="early")
    if not ran.is_comparable or ran.told is None:
        return SearchedValue(knob=knob, value=value, step_s=None, ended="failed")
    if not ran.applied.get(knob):
        return SearchedValue(knob=knob, value=value, step_s=None, ended="declined")
    each = step_s(ran.told, len(ran.told.marks)) / (value if sized else 1)
    return SearchedValue(knob=knob, value=value, step_s=each, ended="through")
