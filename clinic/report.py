"""The page of results, in Markdown; what is printed is the same text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from clinic.card import Case
from clinic.judge import forecasts, right
from clinic.outcome import Outcome, machine, timed
from clinic.rivals import DOCTORS, product
from clinic.score import Pair, Score, attribution_error, marks, score

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
FORECAST = {"error_median": ("median", 0.05), "error_p90": ("90th percentile", 0.15)}


def page(pairs: Sequence[Pair], command: str, picture: str = "", missing: int = 0) -> str:
    """All of it."""
    found = score(_counted(pairs))
    made = max((outcome.made for _, outcome in pairs), default="")
    lines = [
        f"# The clinic: {len(pairs)} jobs with known truth",
        "",
        f"Made on {made[:10]} by `{command}` on {machine()}.",
        "How each number is computed stands below, and in `clinic/README.md`.",
        "",
        *_reserve(pairs, missing),
        *_targets(found, _modes(pairs)),
        *_rivals(found),
        *_families(found),
        *_rest(found),
        *([f"![What was planted, and what was named first]({picture})", ""] if picture else []),
        *_cases(pairs),
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


def _modes(pairs: Sequence[Pair]) -> dict[str, Score]:
    """The score of each mode, where there are several."""
    modes = dict.fromkeys(outcome.mode for _, outcome in pairs)
    if len(modes) < 2:
        return {}
    return {mode: score(pair for pair in pairs if pair[1].mode == mode) for mode in modes}


def _reserve(pairs: Sequence[Pair], missing: int) -> Iterator[str]:
    """What speaks against the numbers."""
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


def _targets(found: Score, modes: Mapping[str, Score]) -> Iterator[str]:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.counts.items()))
    levels = ", ".join(f"{count} {level}" for level, count in sorted(found.levels.items()))
    yield f"Cases as measured: {kinds}" + (f"; {found.errors} failed" if found.errors else "") + "."
    yield f"Severity by the measured gain of the cure: {levels or 'not measured'}."
    if "recorded" in modes:
        yield "Recordings of other people stand beside, and are in no other number."
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
    yield words, 0.05, "≤", 1, lambda found: found.attribution_error


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
    accounted = any(outcome.truth for _, outcome in pairs)
    columns = ["case", "job", "kind", "truth", "named first", "ok", "gain measured", "predicted"]
    columns += ["attribution off by"] if accounted else []
    yield from ("## Case by case", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|")
    for case, outcome in pairs:
        cells = _cells(case, outcome)
        if accounted:
            error = attribution_error(outcome)
            cells.append("" if error is None else percent(error, 1))
        yield f"| {case.id} | {case.workload} | {' | '.join(cells)} |"
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
