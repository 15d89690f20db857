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
from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.candidates import Candidate
from whyidle.engine.trial.healing import LAST_ARMS, LEAST_ARMS, Healing
from whyidle.engine.trial.judge import failed
from whyidle.engine.trial.judgement import Reason
from whyidle.engine.trial.pair import step_s
from whyidle.engine.trial.value_choice import choose_value, most_workers_here
from whyidle.engine.wording import summarize_edits
from whyidle.model.diagnosis import Edit, Searched

SHARE = 0.2
"""of the time that is left, at most, goes into a race"""
MOST = 5
"""numbers in a race"""
NEIGHBOURS = 3
"""numbers that are a race: the model's, and one on either side, where there are so many"""


class Settled(NamedTuple):
    """The candidate with the number to try, what was tried for it, and why none is worth a pair;
    None where one is."""

    candidate: Candidate
    searched: list[Searched]
    why: Reason | None = None


def settle(healing: Healing, candidate: Candidate) -> Settled:
    """The candidate with the number that is fastest; as it was, where it has no number, or the time
    does not allow a race. Where the job took no number, or failed with each, a pair would show the
    same again."""
    candidate = _within_limits(candidate, most_workers_here())
    edit = next((one for one in candidate.edits if _open(one)), None)
    if edit is None:
        return Settled(candidate, [])
    among = edit.among[: min(MOST, _affordable(healing))]
    if len(among) < min(NEIGHBOURS, len(edit.among)):
        return Settled(candidate, [])
    values = ", ".join(map(str, sorted(among)))
    healing.voice.say(f"{candidate.fix}: which {edit.knob} of {values} is fastest")
    entries = [_with(candidate, edit, value) for value in among]
    rans = healing.race([healing.edits(entry) for entry in entries])
    came = list(zip(among, entries, rans, strict=True))
    found = [_searched(edit.knob, value, ran) for value, _, ran in came]
    if steps_s := _worth(found, rans):
        return Settled(entries[among.index(_chosen(healing, steps_s, came))], found)
    whys = [failed(ran, entry) for _, entry, ran in came if ran.ending != "outrun"]
    return Settled(candidate, found, whys[0] if whys and all(whys) else None)


def _worth(found: Sequence[Searched], rans: Sequence[Ran]) -> dict[int, float]:
    """Seconds of a step by number, of those that came through; where none did, of those that took
    hold and were outrun, by the job without it then: a pair tells that more surely."""
    through = {one.value: one.step_s for one in found if one.ended == "through" and one.step_s}
    return through or {
        one.value: one.step_s
        for one, ran in zip(found, rans, strict=True)
        if one.ended == "early" and one.step_s and ran.applied.get(one.knob)
    }


def _chosen(
    healing: Healing, steps_s: dict[int, float], came: Sequence[tuple[int, Candidate, Ran]]
) -> int:
    """The number to try, start-ups counted where those of all are known."""
    startup_s = {
        value: max(ran.seconds - len(ran.told.marks) * steps_s[value], 0.0)
        for value, _, ran in came
        if value in steps_s and ran.told is not None and ran.ending in ("stopped", "finished")
    }
    whole = len(startup_s) == len(steps_s)
    left = healing.left.of(min(steps_s.values())) if healing.left else None
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
    return _with(replace(candidate, edits=edits), edit, among[0])


def _open(edit: Edit) -> bool:
    return len(edit.among) > 1 and not catalog.find_knob(edit.knob).by_people


def _affordable(healing: Healing) -> int:
    """Arms of a race, when a trial and the last arms must have their time as well."""
    spare = healing.left_s - (LEAST_ARMS + LAST_ARMS) * healing.arm_s
    return int(max(min(SHARE * healing.left_s, spare), 0.0) / max(healing.arm_s, 1e-9))


def _with(candidate: Candidate, edit: Edit, value: int) -> Candidate:
    """The candidate with another number, and what it then says."""
    if value == edit.value:
        return candidate
    edits = tuple(
        msgspec.structs.replace(one, value=value) if one is edit else one for one in candidate.edits
    )
    return replace(candidate, edits=edits, summary=summarize_edits(edits))


def _searched(knob: str, value: int, ran: Ran) -> Searched:
    """What came of one number; of batches that are so many times as large, the seconds of as many
    samples as a step had."""
    sized = catalog.find_knob(knob).per_sample
    last = ran.rungs[max(ran.rungs)] if ran.rungs and not sized else None
    if ran.declined.get(knob) and not ran.applied.get(knob) and ran.ending == "outrun":
        return Searched(knob=knob, value=value, step_s=None, ended="declined")
    if ran.ending == "outrun":
        return Searched(knob=knob, value=value, step_s=last, ended="early")
    if not ran.good or ran.told is None:
        return Searched(knob=knob, value=value, step_s=None, ended="failed")
    if not ran.applied.get(knob):
        return Searched(knob=knob, value=value, step_s=None, ended="declined")
    each = step_s(ran.told, len(ran.told.marks)) / (value if sized else 1)
    return Searched(knob=knob, value=value, step_s=each, ended="through")
