"""The page of results, in Markdown; what is printed is the same text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from clinic.card import Case
from clinic.judge import forecasts, right
from clinic.outcome import Outcome, machine
from clinic.rivals import DOCTORS, product
from clinic.score import Pair, Score, marks, score

HOW = Path(__file__).with_name("how.md")
TARGETS = {
    "top1": ("first finding is the planted cause", 0.90, "least"),
    "bucket": ("its bucket is right", 0.95, "least"),
    "alarms_healthy": ("false alarms on healthy jobs", 0.05, "most"),
    "alarms_decoy": ("false alarms on decoys", 0.10, "most"),
    "abstained": ("unknown causes said to be unknown, in the right phase", 0.70, "least"),
}
COLUMNS = {
    "top1": "top-1",
    "top3": "top-3",
    "family": "family",
    "bucket": "bucket",
    "alarms_healthy": "alarms, healthy",
    "alarms_decoy": "alarms, decoys",
    "abstained": "abstained",
    "reached": "reached",
}
FORECAST = {"error_median": ("median", 0.05), "error_p90": ("90th percentile", 0.15)}


def page(pairs: Sequence[Pair], command: str, picture: str = "", missing: int = 0) -> str:
    """All of it."""
    found = score(pairs)
    made = max((outcome.made for _, outcome in pairs), default="")
    lines = [
        f"# The clinic: {len(pairs)} jobs with known truth",
        "",
        f"Made on {made[:10]} by `{command}` on {machine()}.",
        "How each number is computed stands below, and in `clinic/README.md`.",
        "",
        *([f"**{missing} more cases of this mode were not run.**", ""] if missing else []),
        *_targets(found),
        *_rivals(found),
        *_families(found),
        *_rest(found),
        *([f"![What was planted, and what was named first]({picture})", ""] if picture else []),
        *_cases(pairs),
        *_how(),
    ]
    return "\n".join(lines)


def _targets(found: Score) -> Iterator[str]:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.counts.items()))
    levels = ", ".join(f"{count} {level}" for level, count in sorted(found.levels.items()))
    yield f"Cases as measured: {kinds}" + (f"; {found.errors} failed" if found.errors else "") + "."
    yield f"Severity by the measured gain of the cure: {levels or 'not measured'}."
    yield from ("", "| what | here | target | |", "|---|---|---|---|")
    table = found.tables[0]
    for name, (words, bound, kind) in TARGETS.items():
        value = getattr(table, name)
        sign, good = ("≥", _at_least) if kind == "least" else ("≤", _at_most)
        yield f"| {words} | {percent(value)} | {sign} {percent(bound)} | {good(value, bound)} |"
    for name, (words, bound) in FORECAST.items():
        value = getattr(found.forecasting, name) if found.forecasting else None
        said = f"error of the predicted step time, {words}, of the sick step"
        yield f"| {said} | {percent(value, 1)} | ≤ {percent(bound)} | {_at_most(value, bound)} |"
    error = found.attribution_error
    words = "attribution against the emulated device's own account, worst"
    yield f"| {words} | {percent(error, 1)} | ≤ 5 % | {_at_most(error, 0.05)} |"
    yield ""


def _at_least(value: float | None, bound: float) -> str:
    return "" if value is None else "met" if value >= bound else "**missed**"


def _at_most(value: float | None, bound: float) -> str:
    return "" if value is None else "met" if value <= bound else "**missed**"


def _rivals(found: Score) -> Iterator[str]:
    yield from ("## Beside simple rules", "", f"| | {' | '.join(COLUMNS.values())} |")
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for table in found.tables:
        values = (percent(getattr(table, name)) for name in COLUMNS)
        yield f"| {table.doctor} | {' | '.join(values)} |"
    yield ""


def _families(found: Score) -> Iterator[str]:
    yield from ("## By family", "", "| family | sick jobs | cause | bucket |", "|---|---|---|---|")
    for family, (count, exact, bucket) in found.families.items():
        yield f"| {family} | {count} | {percent(exact / count)} | {percent(bucket / count)} |"
    yield ""


def _rest(found: Score) -> Iterator[str]:
    told = found.forecasting
    if told:
        yield from ("## Predictions", "", "| | |", "|---|---|")
        yield f"| predictions of planted causes among the first three | {told.count} |"
        yield f"| error, share of the sick step: median | {percent(told.error_median, 1)} |"
        yield f"| 90th percentile | {percent(told.error_p90, 1)} |"
        yield f"| error, share of the cured step: median | {percent(told.relative_median, 1)} |"
        yield f"| 90th percentile | {percent(told.relative_p90, 1)} |"
        yield f"| signed mean (below zero: too much was promised) | {signed(told.bias)} |"
        yield f"| the measured gain lies in the stated interval | {percent(told.covered)} |"
        yield f"| the interval meets the spread of the pairs | {percent(told.near)} |"
        yield ""
    if found.varying:
        seen = found.varying - found.undetected
        yield from ("## Delay", "", f"Of {found.varying} jobs that fall ill {seen} were told of.")
        if seen:
            yield f"Median: {found.delay_s:.0f} s, {found.delay_steps:.0f} steps after the onset."
        yield ""
    yield from ("## Cost", "")
    yield f"Slower under watch than alone, median over cases: {signed(found.overhead)}. Runs of a"
    yield "few seconds scatter by more; `performance.md` has the careful number."
    yield f"Runs of one and the same job differ by {percent(found.noise, 1)} here (median)."
    yield f"CPU of watching, as the product tells it: {percent(found.overhead_ratio, 2)}."
    yield ""


def _cases(pairs: Sequence[Pair]) -> Iterator[str]:
    yield from ("## Case by case", "")
    yield "| case | job | kind | truth | named first | ok | gain measured | predicted |"
    yield "|---|---|---|---|---|---|---|---|"
    for case, outcome in pairs:
        yield f"| {case.id} | {case.workload} | {' | '.join(_cells(case, outcome))} |"
    yield ""


def _cells(case: Case, outcome: Outcome) -> list[str]:
    """Kind, truth, what was said, whether it is right, gain, prediction."""
    planted = " + ".join(fault.cause or fault.locus for fault in case.inject)
    if outcome.error:
        why = " ".join(outcome.error.split()).replace("|", "/")[-160:]
        return [case.kind, planted, f"failed: {why}", "", "", ""]
    (mark,) = marks("whyidle", [(case, outcome)])
    kind = case.kind if mark.kind == case.kind else f"{case.kind}, by measure {mark.kind}"
    told = (f"{o.predicted:.2f} ({o.low:.2f}-{o.high:.2f})" for o in forecasts(case, outcome))
    sign = {True: "yes", False: "**no**", None: ""}[right(mark)]
    return [kind, planted, _said(outcome), sign, _gain(outcome), ", ".join(told)]


def _said(outcome: Outcome) -> str:
    opinion = product(outcome)
    if opinion.guesses:
        return ", ".join(guess.cause for guess in opinion.guesses[:3])
    return f"({outcome.state}{': ' + opinion.phase if opinion.phase else ''})"


def _gain(outcome: Outcome) -> str:
    gain = outcome.gains.get("cured")
    if gain is None:
        return ""
    return f"{gain.ratio:.2f} ({min(gain.ratios):.2f}-{max(gain.ratios):.2f})"


def _how() -> Iterator[str]:
    yield HOW.read_text(encoding="utf-8").rstrip()
    for name, doctor in DOCTORS.items():
        yield f"* **{name}**: {' '.join((doctor.__doc__ or '').split())}"
    yield ""


def percent(value: float | None, digits: int = 0) -> str:
    """A share as people read it; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def signed(value: float | None) -> str:
    """The same with its sign."""
    return "–" if value is None else f"{100 * value:+.1f} %"
