"""Marks of many cases become the numbers that are published."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median

import msgspec

from clinic.account import Attribution, attribution
from clinic.card import Case
from clinic.judge import Forecast, Mark, forecasts, harmed, judge, kind_of
from clinic.outcome import Outcome, timed
from clinic.rivals import DOCTORS

SICK = ("single", "masked", "varying")
Pair = tuple[Case, Outcome]


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """How one doctor did. Shares are 0 to 1; None where there was no such case.

    ``top1`` to ``bucket`` are means over families of means over their cases. ``f1`` weighs all
    that is named against all that is planted, over sick jobs; ``f1_several`` over those with more
    than one fault.
    """

    doctor: str
    top1: float | None
    top3: float | None
    family: float | None
    bucket: float | None
    f1: float | None
    f1_several: float | None
    alarms_healthy: float | None
    alarms_decoy: float | None
    abstained: float | None
    reached: float | None


class Forecasting(msgspec.Struct, frozen=True, kw_only=True):
    """Predictions beside outcomes; times as shares of the sick job's step."""

    count: int
    error_median: float
    error_p90: float
    relative_median: float
    relative_p90: float
    bias: float
    covered: float
    near: float


class Seconds(msgspec.Struct, frozen=True, kw_only=True):
    """What cases took, without waiting for their turn; ``untold``: timings of cures that tell no
    seconds, or were not made."""

    watching: float
    timing: float
    untold: int


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is published of a set of cases."""

    counts: dict[str, int]
    levels: dict[str, int]
    tables: list[Table]
    families: dict[str, tuple[int, int, int]]
    forecasting: Forecasting | None
    attribution: Attribution | None
    advised: int
    harmed: int
    overhead: float | None
    overhead_ratio: float | None
    errors: int
    noise: float | None
    seconds: Seconds


def score(pairs: Iterable[Pair]) -> Score:
    """From outcomes to numbers; cases that failed count as errors and nowhere else."""
    every = list(pairs)
    done = [(case, outcome) for case, outcome in every if not outcome.error]
    told = [one for case, outcome in done for one in forecasts(case, outcome)]
    slower = [o.alone_rate / o.watched_rate - 1 for _, o in done if o.alone_rate and o.watched_rate]
    ratios = [o.overhead_ratio for _, o in done if o.overhead_ratio is not None]
    advised = [one for case, outcome in done if (one := harmed(case, outcome)) is not None]
    return Score(
        counts=dict(Counter(kind_of(case, outcome) for case, outcome in done)),
        levels=dict(Counter(grade(outcome) for _, outcome in done if "cured" in outcome.gains)),
        tables=[table(name, done) for name in DOCTORS],
        families=by_family(marks("whyidle", done)),
        forecasting=forecasting(told),
        attribution=attribution([outcome for _, outcome in done]),
        advised=len(advised),
        harmed=sum(advised),
        overhead=_or_none(median, slower),
        overhead_ratio=_or_none(median, ratios),
        errors=len(every) - len(done),
        noise=_or_none(median, [spread(o) for _, o in done if "cured" in o.gains]),
        seconds=taken(every),
    )


def taken(every: Sequence[Pair]) -> Seconds:
    """The price of the suite."""
    asked = [outcome.gains for case, outcome in every if timed(case)]
    spent = [sum(gain.seconds for gain in gains.values()) for gains in asked]
    return Seconds(
        watching=sum(outcome.seconds for _, outcome in every),
        timing=sum(spent),
        untold=sum(not each for each in spent),
    )


def marks(doctor: str, done: Sequence[Pair]) -> list[Mark]:
    """One doctor's, of every case."""
    return [judge(case, outcome, DOCTORS[doctor](outcome)) for case, outcome in done]


def table(doctor: str, done: Sequence[Pair]) -> Table:
    """One doctor's row."""
    found = marks(doctor, done)
    return Table(
        doctor=doctor,
        top1=macro(found, lambda mark: mark.top1),
        top3=macro(found, lambda mark: mark.top3),
        family=macro(found, lambda mark: mark.family1),
        bucket=macro(found, lambda mark: mark.bucket1),
        f1=f1(mark.labels for mark in found),
        f1_several=f1(mark.labels for mark in found if mark.kind == "masked"),
        alarms_healthy=share(m.alarm for m in found if m.kind == "healthy"),
        alarms_decoy=share(m.alarm for m in found if m.kind == "decoy"),
        abstained=share(m.abstained for m in found if m.kind == "unknown"),
        reached=_or_none(mean, [m.reached for m in found if m.reached is not None]),
    )


def macro(found: Iterable[Mark], right: Callable[[Mark], bool | None]) -> float | None:
    """The mean over families of the share that is right within each."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for mark in found:
        if mark.kind in SICK and (answer := right(mark)) is not None:
            groups[mark.family].append(answer)
    return _or_none(mean, [mean(answers) for answers in groups.values()])


def f1(labels: Iterable[tuple[int, int, int] | None]) -> float | None:
    """Harmonic mean of precision and recall over all causes of all cases together."""
    counted = [one for one in labels if one is not None]
    if not counted:
        return None
    hits, extra, missed = (sum(column) for column in zip(*counted, strict=True))
    return 2 * hits / (2 * hits + extra + missed)


def by_family(found: Iterable[Mark]) -> dict[str, tuple[int, int, int]]:
    """Per family: sick cases, right by exact cause, right by bucket."""
    groups: dict[str, list[Mark]] = defaultdict(list)
    for mark in found:
        if mark.kind in SICK:
            groups[mark.family].append(mark)
    return {
        family: (len(each), sum(bool(m.top1) for m in each), sum(bool(m.bucket1) for m in each))
        for family, each in sorted(groups.items())
    }


def share(answers: Iterable[bool | None]) -> float | None:
    """Of those that apply, how many are true."""
    return _or_none(mean, [answer for answer in answers if answer is not None])


def forecasting(told: Sequence[Forecast]) -> Forecasting | None:
    """Error, bias and coverage of predictions."""
    if not told:
        return None
    errors = sorted(abs(one.error) for one in told)
    relative = sorted(abs(one.relative) for one in told)
    return Forecasting(
        count=len(told),
        error_median=median(errors),
        error_p90=quantile(errors, 0.9),
        relative_median=median(relative),
        relative_p90=quantile(relative, 0.9),
        bias=mean(one.error for one in told),
        covered=mean(one.covered for one in told),
        near=mean(one.near for one in told),
    )


def quantile(ordered: Sequence[float], at: float) -> float:
    """Linear between the neighbours, as NumPy's default."""
    place = at * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def spread(outcome: Outcome) -> float:
    """By how much the fastest run of the sick job, alone, is faster than the slowest."""
    rates = [sick for sick, _ in outcome.gains["cured"].pairs]
    return max(rates) / min(rates) - 1


def grade(outcome: Outcome) -> str:
    """How bad it was, as measured: the share by which the rate rises."""
    gain = outcome.gains["cured"].ratio - 1
    names = (("none", 0.02), ("slight", 0.05), ("mild", 0.15), ("medium", 0.5))
    return next((name for name, most in names if gain < most), "severe")


def _or_none(what: Callable[[Sequence[float]], float], values: Iterable[float]) -> float | None:
    found = list(values)
    return float(what(found)) if found else None
