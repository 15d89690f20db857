"""Beside simple rules, by family, and what was predicted: all together, and each mode by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from clinic.card import Mode
from clinic.page.listing import WHERE
from clinic.score import Pair, Score, score
from clinic.typed import framework
from clinic.wording import fine, percent, signed

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


def rivals(found: Score, modes: Mapping[Mode, Score]) -> Iterator[str]:
    """What the product names, beside what simple rules would."""
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


def families(found: Score, modes: Mapping[Mode, Score]) -> Iterator[str]:
    """Causes and buckets that were right, in each family."""
    every = (found, *modes.values())
    names = ["", *(f", {mode}" for mode in modes)]
    columns = " | ".join(f"sick jobs{name} | cause | bucket" for name in names)
    yield from ("## By family", "", f"| family | {columns} |", "|---" * (3 * len(every) + 1) + "|")
    for family in found.families:
        cells = " | ".join(_family(one.families.get(family)) for one in every)
        yield f"| {family} | {cells} |"
    yield ""


def frameworks(pairs: Sequence[Pair]) -> Iterator[str]:
    """A row of the most important numbers for each framework, where there are several."""
    names = dict.fromkeys(framework(case.options) for case, _ in pairs)
    if len(names) < 2:
        return
    titles = (*FRAMEWORK, "predictions, median error", "slower with a cure")
    yield from ("## By framework", "", f"| framework | jobs | {' | '.join(titles)} |")
    yield "|---" * (len(titles) + 2) + "|"
    for name in names:
        own = [pair for pair in pairs if framework(pair[0].options) == name]
        one = score(own)
        cells = [percent(value(one)) for value in FRAMEWORK.values()]
        cells += [_told("error_median", fine)(one), f"{one.harmed} of {one.advised}"]
        yield f"| {name} | {len(own)} | {' | '.join(cells)} |"
    yield ""


def _flat(name: str) -> Callable[[Score], float | None]:
    return lambda one: getattr(one.tables[0], name)


def _cases(place: int) -> Callable[[Score], float | None]:
    """Over jobs, not over families: a framework has few of each."""

    def read(one: Score) -> float | None:
        told = one.families.values()
        count = sum(family[0] for family in told)
        return sum(family[place] for family in told) / count if count else None

    return read


FRAMEWORK: Final[dict[str, Callable[[Score], float | None]]] = {
    "first finding": _cases(1),
    "bucket": _cases(2),
    "alarms, healthy": _flat("alarms_healthy"),
    "alarms, decoys": _flat("alarms_decoy"),
}


def _family(told: tuple[int, int, int] | None) -> str:
    if told is None:
        return " | | "
    count, exact, bucket = told
    return f"{count} | {percent(exact / count)} | {percent(bucket / count)}"


def beside(
    rows: Sequence[tuple[str, Callable[[Score], str]]], found: Score, modes: Mapping[Mode, Score]
) -> Iterator[str]:
    """A table: all together, and each mode by itself where there are several."""
    every = (found, *modes.values())
    yield f"| | {' | '.join(['here', *modes])} |"
    yield "|---" * (len(every) + 1) + "|"
    for words, shown in rows:
        yield f"| {words} | {' | '.join(map(shown, every))} |"
    yield ""


def predictions(found: Score, modes: Mapping[Mode, Score]) -> Iterator[str]:
    """What cures were predicted to bring, held against what they brought."""
    if not found.forecasting:
        return
    yield from ("## Predictions", "")
    rows = [
        ("predictions of planted causes among the first three", _told("count", str)),
        ("error, share of the sick step: median", _told("error_median", fine)),
        ("90th percentile", _told("error_p90", fine)),
        ("error, share of the cured step: median", _told("relative_median", fine)),
        ("90th percentile", _told("relative_p90", fine)),
        ("signed mean (below zero: too much was promised)", _told("bias", signed)),
        ("the measured gain lies in the stated interval", _told("covered", percent)),
        ("the interval meets the spread of the pairs", _told("near", percent)),
        ("advised cures that were measured", lambda one: str(one.advised)),
        ("of these the job was slower with", lambda one: str(one.harmed)),
    ]
    yield from beside(rows, found, modes)


def _told(name: str, shown: Callable[[Any], str]) -> Callable[[Score], str]:
    return lambda one: shown(getattr(one.forecasting, name)) if one.forecasting else "–"
