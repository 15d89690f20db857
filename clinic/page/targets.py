"""What is asked of the product, and whether it is met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from clinic.card import Mode
from clinic.score import Score
from clinic.wording import percent

TARGETS = {
    "top1": ("first finding is the planted cause", 0.90, "least"),
    "bucket": ("its bucket is right", 0.95, "least"),
    "alarms_healthy": ("false alarms on healthy jobs", 0.05, "most"),
    "alarms_decoy": ("false alarms on decoys", 0.10, "most"),
    "f1_several": ("all causes of jobs that have several, F1", 0.85, "least"),
    "abstained": ("unknown causes said to be unknown, in the right phase", 0.70, "least"),
}
FORECAST = {"error_median": ("median", 0.05), "error_p90": ("90th percentile", 0.15)}
Reader = Callable[[Score], float | None]


def targets(found: Score, modes: Mapping[Mode, Score]) -> Iterator[str]:
    """The section of the page, below what was measured."""
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
