"""What a finding costs, beside what its fixes are predicted to win."""

from functools import partial

import msgspec
import pytest

from whyidle.model.diagnosis import Interval
from whyidle.reports import html, markdown, terminal

everything = partial(terminal.render, full=True)

ELSEWHERE = "with related time"
RENDER = [html.render, markdown.render, lambda told: everything(told, width=400)]


@pytest.mark.parametrize("render", RENDER, ids=["html", "markdown", "terminal"])
@pytest.mark.parametrize(("high", "said"), [(0.2, True), (0.2255, False), (0.24, False)])
def test_a_fix_that_may_win_more_than_the_finding_costs_is_said_to(
    build, finding, render, high, said
):
    """At best it makes the step 1.3 times as fast, which is 23 % of it."""
    one = msgspec.structs.replace(finding(), lost=Interval(low=0.1, high=high))
    assert (ELSEWHERE in render(build(findings=[one]))) == said
