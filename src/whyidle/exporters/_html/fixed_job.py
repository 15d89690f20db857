"""The top of the page of a job that was fixed: what it became, and what it was."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, e
from whyidle.exporters._html.summary import STATES, sentences, tile
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._trials import outcome
from whyidle.exporters._words import bracketed, digits, factor, percent, seconds
from whyidle.model.diagnosis import Diagnosis, FixedJob


def verdict(diagnosis: Diagnosis) -> Markup | None:
    """The outcome, and the numbers behind it; None where nothing was kept."""
    told, fixed = outcome(diagnosis), diagnosis.detail.fixed
    if not told or fixed is None:
        return None
    state, _ = STATES[diagnosis.verdict.state]
    first, end, rest = sentences(diagnosis.verdict.headline)
    kept = [e("li", e("b", "Kept: "), one.summary) for one in diagnosis.trials if one.kept]
    return e(
        "section",
        e("p", e("b", "Fixed"), " · measured in trials of the job", class_="state saturated"),
        e("h1", told),
        e("p", f"Before: {state.lower()}. {first}{end} {rest}".strip(), class_="second"),
        e("dl", *[tile(*one) for one in _tiles(diagnosis, fixed)], class_="tiles"),
        e("ul", kept, class_="notes first"),
        class_="verdict",
        style=f"--accent:{LOOKS['compute'].colour}",
    )


def _tiles(diagnosis: Diagnosis, fixed: FixedJob) -> list[tuple[str, str, str]]:
    tiles = []
    if fixed.speedup is not None and fixed.low is not None and fixed.high is not None:
        note = f"as fast{bracketed(fixed.low, fixed.high)}"
        tiles.append(("all of it together", f"{factor(fixed.speedup)}×", note))
    before, after = diagnosis.attribution.compute, fixed.attribution.compute
    tiles.append(("useful compute", f"{percent(before)} → {percent(after)}", "of the step"))
    if diagnosis.steps.mean_s is not None:
        tiles.append(("step time before", seconds(diagnosis.steps.mean_s), "while it was watched"))
    if fixed.samples_per_s_before and fixed.samples_per_s:
        rates = f"{digits(fixed.samples_per_s_before)} → {digits(fixed.samples_per_s)}"
        tiles.append(("throughput", rates, "samples per second"))
    return tiles
