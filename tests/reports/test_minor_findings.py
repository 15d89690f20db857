"""What is only remarked, and why: it brings little, or may do harm."""

import msgspec
import pytest

from whyidle.model.diagnosis import Edit, Finding, Interval, Predicted, ProposedFix
from whyidle.reports import html, terminal
from whyidle.reports._findings_page import minor_findings


def remark(cause="risky", *, speedup=1.21, lost=0.3, knob="loader.workers"):
    predicted = Predicted(speedup=speedup, low=0.8, high=1.5, method="")
    fix = ProposedFix(
        fix="one",
        summary="a fix",
        edits=[Edit(knob=knob, value=2)],
        consent="none",
        automatic=True,
        predicted=predicted,
        risk="",
    )
    return Finding(
        cause=cause,
        family="input",
        bucket="input",
        severity="info",
        headline="told",
        where=[],
        lost=Interval(low=0.0, high=lost),
        confidence=0.9,
        evidence=[],
        fixes=[fix],
    )


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (remark(), "the fix may slow the job down"),
        (remark(speedup=1.02), "under 3%"),
        (remark(lost=0.02), "under 3%"),
        (remark(knob="loader.batch_size_times"), "with a larger batch"),
    ],
    ids=["promises a sixth", "promises little", "costs little", "wins samples, not time"],
)
def test_a_remark_says_what_makes_it_one(told, why):
    assert minor_findings([told]) == {why: [told]}


@pytest.mark.parametrize("causes", [(), ("small",), ("risky",), ("small", "risky")])
def test_each_is_told_for_what_it_is(full, causes):
    made = {"small": remark("small", speedup=1.01), "risky": remark()}
    diagnosis = msgspec.structs.replace(full, findings=[made[cause] for cause in causes])
    untried = msgspec.structs.replace(diagnosis, trials=[])
    text, page = terminal.render(untried), html.render(diagnosis)
    assert ("also (under 3%): small" in text) == ("small" in causes)
    assert ("also (the fix may slow the job down): risky" in text) == ("risky" in causes)
    assert ("1 minor finding (under 3%)" in page) == ("small" in causes)
    assert ("1 minor finding (the fix may slow the job down)" in page) == ("risky" in causes)
    assert text.count("also (") == len(causes)
