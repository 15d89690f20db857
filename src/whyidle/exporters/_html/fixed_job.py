"""The top of the page of a fixed job: the result, and the verdict before the fixes."""

from __future__ import annotations

from whyidle.exporters._html.element import Markup, tag
from whyidle.exporters._html.summary import STATES, render_tile, split_headline
from whyidle.exporters._number_format import (
    format_bracketed,
    format_digits,
    format_factor,
    format_percent,
    format_seconds,
)
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._trials_page import summarize_outcome
from whyidle.model.diagnosis import Diagnosis, FixedJob


def verdict(diagnosis: Diagnosis) -> Markup | None:
    """Render the outcome of the trials; None if no fix was kept."""
    outcome, fixed = summarize_outcome(diagnosis), diagnosis.detail.fixed
    if not outcome or fixed is None:
        return None
    state, _ = STATES[diagnosis.verdict.state]
    first, end, rest = split_headline(diagnosis.verdict.headline)
    kept_fixes = [
        tag("li", tag("b", "Kept: "), trial.summary) for trial in diagnosis.trials if trial.kept
    ]
    return tag(
        "section",
        tag("p", tag("b", "Fixed"), " · measured in trials of the job", class_="state saturated"),
        tag("h1", outcome),
        tag("p", f"Before: {state.lower()}. {first}{end} {rest}".strip(), class_="second"),
        tag("dl", *[render_tile(*tile) for tile in _tiles(diagnosis, fixed)], class_="tiles"),
        tag("ul", kept_fixes, class_="notes first"),
        class_="verdict",
        style=f"--accent:{LOOKS['compute'].colour}",
    )


def _tiles(diagnosis: Diagnosis, fixed: FixedJob) -> list[tuple[str, str, str]]:
    tiles = []
    if fixed.speedup is not None and fixed.low is not None and fixed.high is not None:
        note = f"as fast{format_bracketed(fixed.low, fixed.high)}"
        tiles.append(("all kept fixes", f"{format_factor(fixed.speedup)}×", note))
    before, after = diagnosis.attribution.compute, fixed.attribution.compute
    tiles.append(
        ("useful compute", f"{format_percent(before)} → {format_percent(after)}", "of the step")
    )
    if diagnosis.steps.mean_s is not None:
        tiles.append(
            ("step time before", format_seconds(diagnosis.steps.mean_s), "in the watched run")
        )
    if fixed.samples_per_s_before and fixed.samples_per_s:
        rates = (
            f"{format_digits(fixed.samples_per_s_before)} → {format_digits(fixed.samples_per_s)}"
        )
        tiles.append(("throughput", rates, "samples per second"))
    return tiles
