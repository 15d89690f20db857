"""Every case in one line: what was planted, what was said, what it brought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from clinic.account import attribution_error, unknown
from clinic.card import Case, Mode
from clinic.judge import forecasts, right
from clinic.outcome import Outcome
from clinic.rivals import product
from clinic.score import Pair, marks
from clinic.wording import percent

WHERE: Final[dict[Mode, str]] = {
    "cpu": "On this machine's CPU",
    "emulated": "On the emulated device, which is no GPU",
    "recorded": "Recordings that other people made",
    "gpu": "On a real GPU",
}


def listed(pairs: Sequence[Pair]) -> Iterator[str]:
    """The section of the page: a table for each mode."""
    yield from ("## Case by case", "")
    modes = dict.fromkeys(outcome.mode for _, outcome in pairs)
    for mode in modes:
        yield from (f"### {WHERE[mode]}", "")
        yield from _table([pair for pair in pairs if pair[1].mode == mode])


def _table(pairs: Sequence[Pair]) -> Iterator[str]:
    accounted = any(outcome.truth for _, outcome in pairs)
    columns = ["case", "job", "kind", "truth", "named first", "ok", "gain measured", "predicted"]
    columns += ["attribution off by", "left unknown"] if accounted else []
    yield from (f"| {' | '.join(columns)} |", "|---" * len(columns) + "|")
    for case, outcome in pairs:
        cells = _cells(case, outcome)
        if accounted:
            error = attribution_error(outcome)
            cells += ["", ""] if error is None else [percent(error, 1), percent(unknown(outcome))]
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
