"""Races the proposed values of a knob and selects the one to test.

The race only selects a value. Its gain is measured afterwards in pairs, so that chance in a single
arm does not count as a gain.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec

from whyidle import catalog
from whyidle.diagnosis.fix_instructions import summarize_edits
from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.loop.ab_test import failure_reason
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.trial_result import RejectionReason
from whyidle.fix.loop.trial_session import LAST_ARMS, LEAST_ARMS, TrialSession
from whyidle.fix.statistics.speedup import step_s
from whyidle.model.diagnosis import Edit, SearchedValue

NEAR = 1.05
"""a value within this factor of the fastest is as good: a worker costs memory, files and a core"""


def choose_value(step_s: Mapping[int, float]) -> int:
    """Choose the smallest value whose step time is within ``NEAR`` of the fastest.

    Raises:
        ValueError: ``step_s`` is empty.
    """
    fastest = min(step_s.values())
    return min(number for number, each in step_s.items() if each <= NEAR * fastest)


FILES_EACH = 12
"""open files per worker in the training process: pipes, sentinel, two shared batches"""
TASKS_EACH = 4  # processes and threads per worker
USABLE = 0.5  # usable share of a limit; the rest is for the job itself


def workers_within_limits(open_files: int, tasks: int) -> int | None:
    """Most workers within the limits of open files and processes; None if both are unlimited."""
    bounds = [
        max(1, int(limit * USABLE / each))
        for limit, each in ((open_files, FILES_EACH), (tasks, TASKS_EACH))
        if limit != resource.RLIM_INFINITY
    ]
    return min(bounds, default=None)


def most_workers_here() -> int | None:
    """Most workers within the limits of this process, which the job inherits."""
    files, tasks = (
        resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    return workers_within_limits(files, tasks)


SHARE = 0.2  # most of the remaining time for a race
MOST = 5  # values in a race, at most
NEIGHBOURS = 3  # values that a race needs: the proposed one and its neighbours


class ChosenValue(NamedTuple):
    """The candidate with the chosen value."""

    candidate: Candidate
    searched: list[SearchedValue]  # results of the race
    why: RejectionReason | None = None  # why no value is worth a test


def choose_candidate_value(session: TrialSession, candidate: Candidate) -> ChosenValue:
    """Race the values of a candidate, if it has several and there is time.

    If no value took effect, or all failed, the reason is returned, since a test would fail alike.
    """
    candidate = _within_limits(candidate, most_workers_here())
    raced = [
        e for e in candidate.edits if len(e.among) > 1 and not catalog.find_knob(e.knob).by_people
    ]
    edit = raced[0] if raced else None
    if edit is None:
        return ChosenValue(candidate, [])
    spare_s = session.left_s - (LEAST_ARMS + LAST_ARMS) * session.arm_s
    race_s = max(min(SHARE * session.left_s, spare_s), 0.0)
    among = edit.among[: min(MOST, int(race_s / max(session.arm_s, 1e-9)))]
    if len(among) < min(NEIGHBOURS, len(edit.among)):
        return ChosenValue(candidate, [])
    values = ", ".join(map(str, sorted(among)))
    session.listener.show_stage(f"{candidate.fix}: which {edit.knob} of {values} is fastest")
    entries = [_with_value(candidate, edit, value) for value in among]
    results = [session.run_trial_arm(session.merged_edits(entry)) for entry in entries]
    searched = [
        _search_entry(edit.knob, value, result)
        for value, result in zip(among, results, strict=True)
    ]
    steps_s = {one.value: one.step_s for one in searched if one.step_s}
    if steps_s:
        return ChosenValue(entries[among.index(choose_value(steps_s))], searched)
    whys = [failure_reason(ran, entry) for ran, entry in zip(results, entries, strict=True)]
    return ChosenValue(candidate, searched, whys[0] if whys and all(whys) else None)


def _within_limits(candidate: Candidate, most: int | None) -> Candidate:
    if most is None:
        return candidate
    edits_of_workers = [
        one for one in candidate.edits if catalog.find_knob(one.knob).counts_processes and one.among
    ]
    if not edits_of_workers or max(edits_of_workers[0].among) <= most:
        return candidate
    among = tuple(dict.fromkeys(min(value, most) for value in edits_of_workers[0].among))
    edit = msgspec.structs.replace(edits_of_workers[0], among=among)
    edits = tuple(edit if one is edits_of_workers[0] else one for one in candidate.edits)
    return _with_value(replace(candidate, edits=edits), edit, among[0])


def _with_value(candidate: Candidate, edit: Edit, value: int) -> Candidate:
    if value == edit.value:
        return candidate
    edits = tuple(
        msgspec.structs.replace(one, value=value) if one is edit else one for one in candidate.edits
    )
    return replace(candidate, edits=edits, summary=summarize_edits(edits))


def _search_entry(knob: str, value: int, result: ArmResult) -> SearchedValue:
    if not result.is_comparable or result.report is None:
        return SearchedValue(knob=knob, value=value, step_s=None, ended="failed")
    if not result.applied.get(knob):
        return SearchedValue(knob=knob, value=value, step_s=None, ended="declined")
    each = step_s(result.report, len(result.report.marks))
    return SearchedValue(knob=knob, value=value, step_s=each, ended="through")
