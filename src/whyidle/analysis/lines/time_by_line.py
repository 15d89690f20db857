"""Time that causes found by line explain, so that others do not explain it again."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.analysis.lines.model_loops import find_model_loop, find_rollout
from whyidle.analysis.lines.reporting_work import find_reporting_work
from whyidle.analysis.steps.step_growth import find_growth


def time_of_line_causes(facts: Facts) -> Intervals:
    """Return when samples show work that only reports, a line whose time grows, or a loop of short
    operators in the model."""
    growth = find_growth(facts)
    spans = EMPTY if growth is None else growth.line.sampled_time
    for found in (find_reporting_work(facts), find_rollout(facts) or find_model_loop(facts)):
        spans = spans if found is None else spans | found.spans
    return spans
