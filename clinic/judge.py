"""One doctor's opinion of one case, held against the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from clinic.card import LATER, Case, Fault
from clinic.outcome import Gain, Named, Outcome
from clinic.rivals import Guess, Opinion

LEAST = 1.02
"""a planted habit whose cure brings less is a decoy: naming it is a false alarm"""
LEAST_DECOY = 1.03
"""a decoy whose every pair of runs gained this much was none; it is left out, and said so"""
ALARM = 1.03
"""a prediction up to here is a remark"""
SCATTERED = 1.05
"""a pair that gained so much while the median gained nothing: what the cure brings is not known"""
HARM = 0.98
"""a cure that leaves less of the sick job's rate does harm, if it was slower in every pair"""
CLOSE = 0.03
"""cures whose gains differ by less are as good: naming either is right"""
NONE = "none"


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """How one opinion did. What does not apply is None.

    Attributes:
        kind: as scored, after measuring: what gains too little became a decoy.
        family: of the truth; its row of the macro-average.
        reached: log of what its first advice gains over log of what the best cure gains.
        labels: planted causes that are named, named ones that are not planted, and planted ones
            that are not named.
    """

    id: str
    kind: str
    family: str
    truth: str
    said: str
    top1: bool | None = None
    top3: bool | None = None
    family1: bool | None = None
    bucket1: bool | None = None
    alarm: bool | None = None
    abstained: bool | None = None
    reached: float | None = None
    labels: tuple[int, int, int] | None = None


def right(mark: Mark) -> bool | None:
    """Whether the case came out as it should; None where it is not scored."""
    if mark.alarm is not None:
        return None if mark.kind == "void" else not mark.alarm
    return mark.top1 if mark.top1 is not None else mark.abstained


def kind_of(case: Case, outcome: Outcome) -> str:
    """What a case is, by measurement. ``void``: a decoy that was none, a healthy job whose device
    idled, or a cure of which runs do not tell whether it brings anything."""
    if case.kind == "healthy" and idled(outcome):
        return "void"
    gain = outcome.gains.get("cured")
    if gain is None:
        return case.kind
    later = any(fault.names & LATER for fault in case.inject)
    if case.kind in ("single", "masked", "varying") and gain.ratio < LEAST and not later:
        return "void" if scattered(gain) else "decoy"
    if case.kind == "decoy" and min(gain.ratios) > LEAST_DECOY:
        return "void"
    return case.kind


def idled(outcome: Outcome) -> bool:
    """Whether the device itself wrote down so much idle time that who says so raises no false
    alarm: a host too slow for what was meant to be healthy. Whatever was said of it."""
    return outcome.truth is not None and sum(outcome.truth.values()) < 1.0 / ALARM


def scattered(gain: Gain) -> bool:
    """Whether its pairs are too far apart to say that the cure brings nothing, or does harm."""
    return gain.ratio < LEAST and max(gain.ratios) > SCATTERED


def binding(case: Case, outcome: Outcome) -> list[tuple[int, Fault]]:
    """The faults that it is right to name first: the one whose cure alone brings most, and those
    that bring nearly as much."""
    alone = {
        number: outcome.gains[f"cured {number}"].ratio
        for number in range(len(case.inject))
        if f"cured {number}" in outcome.gains
    }
    if not alone:
        return list(enumerate(case.inject))
    best = max(alone.values())
    return [(n, f) for n, f in enumerate(case.inject) if alone[n] > best - CLOSE]


def judge(case: Case, outcome: Outcome, opinion: Opinion) -> Mark:
    """Hold an opinion against the truth."""
    kind = kind_of(case, outcome)
    first = opinion.guesses[0].cause if opinion.guesses else NONE
    if kind in ("healthy", "decoy", "void"):
        family = case.inject[0].family if case.inject else ""
        return Mark(
            id=case.id, kind=kind, family=family, truth=kind, said=first, alarm=alarms(opinion)
        )
    if kind == "unknown":
        buckets = {*case.inject[0].buckets, "unknown"}
        right = not alarms(opinion) and opinion.phase in buckets
        family = case.inject[0].family
        return Mark(id=case.id, kind=kind, family=family, truth=kind, said=first, abstained=right)
    return _sick(case, outcome, opinion, kind, first)


def _sick(case: Case, outcome: Outcome, opinion: Opinion, kind: str, first: str) -> Mark:
    faults = [fault for _, fault in binding(case, outcome)]
    right = frozenset().union(*(fault.names for fault in faults))
    guesses = opinion.guesses
    lead = guesses[0] if guesses else None
    buckets = {bucket for fault in faults for bucket in fault.buckets}
    named = {guess.cause for guess in guesses[:3]}
    return Mark(
        id=case.id,
        kind=kind,
        family=faults[0].family,
        truth=first if first in right else faults[0].cause,
        said=first,
        top1=first in right,
        top3=bool(named & right),
        family1=lead is not None and lead.family in {fault.family for fault in faults},
        bucket1=(lead.bucket if lead else opinion.phase) in buckets,
        reached=_reached(case, outcome, opinion),
        labels=_labels(case, guesses),
    )


def alarms(opinion: Opinion) -> bool:
    """Whether anything worth more than 3 % is promised, or done without asking what it is worth."""
    return any(guess.speedup is None or guess.speedup > ALARM for guess in opinion.guesses)


def _reached(case: Case, outcome: Outcome, opinion: Opinion) -> float | None:
    """1.0: as much as all cures together; wrong advice is taken to bring nothing."""
    whole = outcome.gains.get("cured")
    if whole is None or whole.ratio <= LEAST:
        return None
    followed = opinion.guesses if opinion.applies_all else opinion.guesses[:1]
    cured = _cured(case, followed)
    if len(cured) == len(case.inject):
        return 1.0
    ratios = [outcome.gains[f"cured {number}"].ratio for number in cured]
    return math.log(max(1.0, *ratios)) / math.log(whole.ratio) if ratios else 0.0


def _labels(case: Case, guesses: Sequence[Guess]) -> tuple[int, int, int]:
    """Two names of one fault count once; every planted fault is to be found, not the worst."""
    found = len(_cured(case, guesses))
    planted = frozenset().union(*(fault.names for fault in case.inject))
    extra = {guess.cause for guess in guesses} - planted
    return found, len(extra), len(case.inject) - found


def _cured(case: Case, guesses: Sequence[Guess]) -> list[int]:
    causes = {guess.cause for guess in guesses}
    return [number for number, fault in enumerate(case.inject) if fault.names & causes]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """One prediction beside its outcome; times are shares of the sick job's.

    Attributes:
        error: predicted less measured time; negative promised too much.
        relative: the same over the measured time.
    """

    id: str
    cause: str
    predicted: float
    low: float
    high: float
    measured: float
    error: float
    relative: float
    covered: bool
    near: bool


def harmed(case: Case, outcome: Outcome) -> bool | None:
    """Whether a cure that was advised made the job slower than it was; None where none that was
    advised, and promised to be worth it, was measured well enough to say."""
    gains = [gain for _, told, gain in _advised(case, outcome) if told[0] > ALARM]
    slower = [g.ratio < HARM and max(g.ratios) < 1.0 for g in gains if not scattered(g)]
    return any(slower) if slower else None


Advised = tuple[Named, tuple[float, float, float], Gain]


def _advised(case: Case, outcome: Outcome, most: int | None = None) -> Iterator[Advised]:
    """Planted causes among the first so many, with their predictions and measured cures."""
    serious = [one for one in outcome.named if one.severity != "info"][:most]
    for number, fault in enumerate(case.inject):
        key = f"cured {number}" if len(case.inject) > 1 else "cured"
        gain = outcome.gains.get(key)
        naming = [one for one in serious if one.cause in fault.names]
        same = [one for one in naming if fault.fix_id in one.predicted]
        one = next(iter(same if fault.fix_id else naming), None)
        told = one.best(fault.fix_id) if one else None
        if gain is not None and one is not None and told is not None:
            yield one, told, gain


def forecasts(case: Case, outcome: Outcome) -> list[Forecast]:
    """Of every planted cause that was among the first three, where its cure was measured."""
    if kind_of(case, outcome) not in ("single", "masked"):
        return []
    found = []
    for one, told, gain in _advised(case, outcome, 3):
        ratio = gain.ratio
        found.append(
            Forecast(
                id=case.id,
                cause=one.cause,
                predicted=told[0],
                low=told[1],
                high=told[2],
                measured=ratio,
                error=1 / told[0] - 1 / ratio,
                relative=ratio / told[0] - 1,
                covered=told[1] <= ratio <= told[2],
                near=told[1] <= max(gain.ratios) and min(gain.ratios) <= told[2],
            )
        )
    return found
