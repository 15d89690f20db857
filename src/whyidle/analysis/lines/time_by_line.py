"""Time that causes found by line explain, so that others do not explain it again."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals
from whyidle.analysis.lines.operator_loops import find_operator_loop, find_rollout
from whyidle.analysis.lines.repeated_results import find_repeated_results
from whyidle.analysis.lines.reporting_work import find_reporting_work
from whyidle.analysis.steps.step_growth import find_growth


def time_of_line_causes(facts: Facts) -> Intervals:
    """Return when samples show work that only reports, a line whose time grows, results that are
    computed again, or a loop of short operators."""
    growth = find_growth(facts)
    spans = EMPTY if growth is None else growth.line.sampled_time
    loop = find_rollout(facts) or find_operator_loop(facts)
    for found in (find_reporting_work(facts), find_repeated_results(facts), loop):
        spans = spans if found is None else spans | found.spans
    return spans
