"""The page of results, in Markdown; what is printed is the same text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clinic.account import accounted, validity
from clinic.card import Mode
from clinic.listing import WHERE, listed
from clinic.outcome import Outcome, machine, timed
from clinic.rivals import DOCTORS
from clinic.score import Pair, Score, score
from clinic.sittings import Sittings, sittings
from clinic.wording import percent, signed

HOW = Path(__file__).with_name("how.md")
TARGETS = {
    "top1": ("first finding is the planted cause", 0.90, "least"),
    "bucket": ("its bucket is right", 0.95, "least"),
    "alarms_healthy": ("false alarms on healthy jobs", 0.05, "most"),
    "alarms_decoy": ("false alarms on decoys", 0.10, "most"),
    "f1_several": ("all causes of jobs that have several, F1", 0.85, "least"),
    "abstained": ("unknown causes said to be unknown, in the right phase", 0.70, "least"),
}
COLUMNS = {
    "top1": "top-1",
    "top3": "top-3",
    "family": "family",
    "bucket": "bucket",
    "f1": "F1",
    "f1_several": "F1, several causes",
    "alarms_healthy": "alarms, healthy",
    "alarms_decoy": "alarms, decoys",
    "abstained": "abstained",
    "reached": "reached",
}
MOST_S = 7200.0
"""that the whole suite may take on two cores"""
FORECAST = {"error_median": ("median", 0.05), "error_p90": ("90th percentile", 0.15)}


def page(
    pairs: Sequence[Pair],
    command: str,
    picture: str = "",
    missing: int = 0,
    real: Mapping[str, Outcome] = MappingProxyType({}),
) -> str:
    """All of it; ``real`` are outcomes on a GPU, by case, which emulated ones are held against."""
    found, modes = score(_counted(pairs)), _modes(pairs)
    counted: dict[Mode, Score] = {m: one for m, one in modes.items() if m != "recorded"}
    counted = counted if len(counted) > 1 else {}
    emulated = [pair for pair in judged(pairs) if pair[1].mode == "emulated"]
    made = max((outcome.made for _, outcome in pairs), default="")
    lines = [
        f"# The clinic: {len(pairs)} jobs with known truth",
        "",
        f"Made on {made[:10]} by `{command}` on {machine()}.",
        "How each number is computed stands below, and in `clinic/README.md`.",
        "",
        *_reserve(pairs, missing),
        *_targets(found, modes),
        *_rivals(found, counted),
        *_families(found, counted),
        *_predictions(found, counted),
        *(accounted(found.attribution) if found.attribution else ()),
        *(validity(emulated, real) if emulated else ()),
        *_delay(found),
        *_cost(found, counted, sittings(outcome for _, outcome in pairs), missing),
        *([f"![What was planted, and what was named first]({picture})", ""] if picture else []),
        *listed(pairs),
        *_how(),
    ]
    return "\n".join(lines)


def judged(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that count, and did not fail."""
    return [(case, outcome) for case, outcome in _counted(pairs) if not outcome.error]


def _counted(pairs: Sequence[Pair]) -> list[Pair]:
    """Recordings of other people guard, they do not prove: beside other jobs they do not count."""
    own = [pair for pair in pairs if pair[1].mode != "recorded"]
    return own or list(pairs)


def _modes(pairs: Sequence[Pair]) -> dict[Mode, Score]:
    """The score of each mode, where there are several."""
    modes = dict.fromkeys(outcome.mode for _, outcome in pairs)
    if len(modes) < 2:
        return {}
    return {mode: score(pair for pair in pairs if pair[1].mode == mode) for mode in modes}


def _reserve(pairs: Sequence[Pair], missing: int) -> Iterator[str]:
    """What speaks against the numbers."""
    emulated = sum(outcome.mode == "emulated" for _, outcome in pairs)
    if emulated:
        many = "All jobs" if emulated == len(pairs) else f"{emulated} of these jobs"
        yield f"**{many} ran on the emulated device (`docs/emulated.md`), which is no GPU.** What"
        yield "is told of them stands by itself under that word; no number of theirs is a GPU's."
        yield ""
    if missing:
        yield from (f"**{missing} more cases of this mode were not run.**", "")
    untimed = sum(timed(c) and not outcome.gains and not outcome.error for c, outcome in pairs)
    if untimed:
        yield f"**The cures of {untimed} cases were not timed: these count as what is planted.**"
        yield ""
    versions = {outcome.product for _, outcome in pairs}
    if len(versions) > 1:
        yield f"**Outcomes of {len(versions)} versions of whyidle stand side by side here.**"
        yield ""


def _targets(found: Score, modes: Mapping[Mode, Score]) -> Iterator[str]:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.counts.items()))
    levels = ", ".join(f"{count} {level}" for level, count in sorted(found.levels.items()))
    yield f"Cases as measured: {kinds}" + (f"; {found.errors} failed" if found.errors else "") + "."
    yield f"Severity by the measured gain of the cure: {levels or 'not measured'}."
    if "recorded" in modes:
        yield "Recordings of other people stand beside, and are in no other number."
    own = [mode for mode in modes if mode != "recorded"]
    if len(own) > 1:
        yield f"`here` is {' and '.join(own)} together."
    yield ""
    yield f"| what | {' | '.join(['here', *modes])} | target | |"
    yield "|---" * (len(modes) + 4) + "|"
    for words, bound, sign, digits, value in _wanted():
        shown = " | ".join(percent(value(one), digits) for one in (found, *modes.values()))
        good = _at_least if sign == "≥" else _at_most
        yield f"| {words} | {shown} | {sign} {percent(bound)} | {good(value(found), bound)} |"
    yield ""


Reader = Callable[[Score], float | None]


def _wanted() -> Iterator[tuple[str, float, str, int, Reader]]:
    """What is asked for: words, bound, its sign, digits, and where the number is found."""
    for name, (words, bound, kind) in TARGETS.items():
        yield words, bound, "≥" if kind == "least" else "≤", 0, partial(_of_product, name)
    for name, (words, bound) in FORECAST.items():
        said = f"error of the predicted step time, {words}, of the sick step"
        yield said, bound, "≤", 1, partial(_of_forecasts, name)
    words = "attribution against the emulated device's own account, worst"
    yield words, 0.05, "≤", 1, _worst
    words = "advised cures that left the job slower, of those measured"
    yield words, 0.0, "≤", 1, lambda found: found.harmed / found.advised if found.advised else None


def _worst(found: Score) -> float | None:
    return found.attribution.worst if found.attribution else None


def _of_product(name: str, found: Score) -> float | None:
    value: float | None = getattr(found.tables[0], name)
    return value


def _of_forecasts(name: str, found: Score) -> float | None:
    value: float | None = getattr(found.forecasting, name, None)
    return value


def _at_least(value: float | None, bound: float) -> str:
    return "" if value is None else "met" if value >= bound else "**missed**"


def _at_most(value: float | None, bound: float) -> str:
    return "" if value is None else "met" if value <= bound else "**missed**"


def _rivals(found: Score, modes: Mapping[Mode, Score]) -> Iterator[str]:
    yield from ("## Beside simple rules", "")
    for title, one in _titled(found, modes):
        yield from (*title, f"| | {' | '.join(COLUMNS.values())} |")
        yield "|---" * (len(COLUMNS) + 1) + "|"
        for table in one.tables:
            values = (percent(getattr(table, name)) for name in COLUMNS)
            yield f"| {table.doctor} | {' | '.join(values)} |"
        yield ""


def _titled(found: Score, modes: Mapping[Mode, Score]) -> Iterator[tuple[tuple[str, ...], Score]]:
    """All together, and each mode by itself where there are several."""
    yield ("All together:", "") if modes else (), found
    for mode, one in modes.items():
        yield (f"{WHERE[mode]}:", ""), one


def _families(found: Score, modes: Mapping[Mode, Score]) -> Iterator[str]:
    every = (found, *modes.values())
    names = ["", *(f", {mode}" for mode in modes)]
    columns = " | ".join(f"sick jobs{name} | cause | bucket" for name in names)
    yield from ("## By family", "", f"| family | {columns} |", "|---" * (3 * len(every) + 1) + "|")
    for family in found.families:
        cells = " | ".join(_family(one.families.get(family)) for one in every)
        yield f"| {family} | {cells} |"
    yield ""


def _family(told: tuple[int, int, int] | None) -> str:
    if told is None:
        return " | | "
    count, exact, bucket = told
    return f"{count} | {percent(exact / count)} | {percent(bucket / count)}"


def _beside(
    rows: Sequence[tuple[str, Callable[[Score], str]]], found: Score, modes: Mapping[Mode, Score]
) -> Iterator[str]:
    """A table: all together, and each mode by itself where there are several."""
    every = (found, *modes.values())
    yield f"| | {' | '.join(['here', *modes])} |"
    yield "|---" * (len(every) + 1) + "|"
    for words, shown in rows:
        yield f"| {words} | {' | '.join(map(shown, every))} |"
    yield ""


def _predictions(found: Score, modes: Mapping[Mode, Score]) -> Iterator[str]:
    if not found.forecasting:
        return
    yield from ("## Predictions", "")
    rows = [
        ("predictions of planted causes among the first three", _told("count", str)),
        ("error, share of the sick step: median", _told("error_median", _fine)),
        ("90th percentile", _told("error_p90", _fine)),
        ("error, share of the cured step: median", _told("relative_median", _fine)),
        ("90th percentile", _told("relative_p90", _fine)),
        ("signed mean (below zero: too much was promised)", _told("bias", signed)),
        ("the measured gain lies in the stated interval", _told("covered", percent)),
        ("the interval meets the spread of the pairs", _told("near", percent)),
        ("advised cures that were measured", lambda one: str(one.advised)),
        ("of these the job was slower with", lambda one: str(one.harmed)),
    ]
    yield from _beside(rows, found, modes)


def _told(name: str, shown: Callable[[Any], str]) -> Callable[[Score], str]:
    return lambda one: shown(getattr(one.forecasting, name)) if one.forecasting else "–"


def _fine(value: float | None) -> str:
    return percent(value, 1)


def _delay(found: Score) -> Iterator[str]:
    if found.varying:
        seen = found.varying - found.undetected
        yield from ("## Delay", "", f"Of {found.varying} jobs that fall ill {seen} were told of.")
        if seen:
            yield f"Median: {found.delay_s:.0f} s, {found.delay_steps:.0f} steps after the onset."
        yield ""


def _held(seconds: float, missing: int) -> str:
    """What the time says of the target, which is for all cases."""
    if missing and seconds <= MOST_S:
        return f"not told yet, {missing} cases did not run"
    return "met" if seconds <= MOST_S else "**missed**"


def _took(took: Sittings | None, found: Score, missing: int) -> Iterator[str]:
    """Of the whole, on the wall: the minutes of cases that ran side by side overlap."""
    if took is None:
        spent = found.seconds
        if not spent.untold:
            whole = spent.watching + spent.timing
            said = _held(whole, missing)
            yield f"What stands here took {_minutes(whole)} minutes; asked of the whole suite are"
            yield f"at most 120: {said}."
        return
    said = _held(took.active_s, missing)
    sat = "one sitting" if took.count == 1 else f"{took.count} sittings"
    yield f"**All that stands here ran in {_minutes(took.active_s)} minutes** by the clock, in"
    yield f"{sat}; pauses, waiting for a turn and what was broken off are left out. Asked of the"
    yield f"whole suite are at most 120 on two cores: {said}."
    if took.at_once > 1:
        yield f"Up to {took.at_once} emulated cases ran side by side, those whose host is idle for"
        yield "most of a step; every other ran alone."
    else:
        yield "Every case ran alone."


def _cost(
    found: Score, modes: Mapping[Mode, Score], took: Sittings | None, missing: int
) -> Iterator[str]:
    yield from ("## Cost", "")
    rows: list[tuple[str, Callable[[Score], str]]] = [
        ("slower under watch than alone, median over cases", lambda one: signed(one.overhead)),
        ("runs of one and the same job differ by, median", lambda one: _fine(one.noise)),
        ("CPU of watching, as the product tells", lambda one: percent(one.overhead_ratio, 2)),
        ("minutes of watching", lambda one: _minutes(one.seconds.watching)),
        ("minutes of timing cures", lambda one: _minutes(one.seconds.timing)),
        ("cases whose cures were not timed, or told no seconds", lambda o: str(o.seconds.untold)),
    ]
    yield from _beside(rows, found, modes)
    yield "Runs of a few seconds scatter by more than watching costs; `performance.md` has the"
    yield "careful number."
    yield from (*_took(took, found, missing), "")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}"


def _how() -> Iterator[str]:
    yield HOW.read_text(encoding="utf-8").rstrip()
    for name, doctor in DOCTORS.items():
        yield f"* **{name}**: {' '.join((doctor.__doc__ or '').split())}"
    yield ""
