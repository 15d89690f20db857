"""Outcomes held against truths, on made documents."""

import msgspec
import pytest

from field.score import agrees, is_right, mark_job
from field.truth import Job
from field.watch import Outcome, Said, read_outcome
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.demo import job as demo_job

SICK = Job(
    half="open",
    source="s",
    kind="norms are read",
    command="python norms_every_step.py",
    place=r"norm\(\)",
    wrong=("wrong-cause",),
    gain=1.5,
    low=1.4,
    high=1.6,
    pairs=3,
)
HEALTHY = Job(half="open", source="s", kind="k", command="python a.py", healthy=True)


def said(cause="any-cause", place="a.py:3: p.norm().item()", removal=(1.5, 1.3, 1.7), promised=1.5):
    return Said(cause=cause, headline="h", places=(place,), removal=removal, promised=promised)


def outcome(*found):
    return Outcome(job="a", source="x", state="host", headline="h", found=found)


def test_a_finding_at_the_place_is_right_whatever_its_cause():
    assert is_right(SICK, said())
    assert not is_right(SICK, said(place="a.py:4: loss.backward()"))
    assert not is_right(SICK, said(cause="wrong-cause"))


def test_an_accepted_cause_is_right_at_any_place():
    accepting = msgspec.structs.replace(SICK, cause=("any-cause",))
    assert is_right(accepting, said(place="a.py:4: loss.backward()"))


def test_a_place_is_not_searched_in_the_name_of_the_file():
    assert not is_right(SICK, said(place="norm().py:4: loss.backward()"))


def test_the_first_finding_counts_apart_from_the_first_three():
    other = said(place="a.py:4: loss.backward()")
    mark = mark_job("a", SICK, outcome(other, said()))
    assert (mark.top1, mark.top3, mark.place, mark.alarm) == (False, True, False, None)
    nothing = mark_job("a", SICK, outcome())
    assert (nothing.top1, nothing.top3, nothing.place, nothing.removal) == (
        False,
        False,
        False,
        None,
    )


def test_a_wrong_cause_at_the_right_line_is_not_right_though_placed():
    mark = mark_job("a", SICK, outcome(said(cause="wrong-cause")))
    assert (mark.top1, mark.place) == (False, True)


@pytest.mark.parametrize(
    ("removal", "gain", "expected"),
    [
        ((2.0, 1.2, 3.0), 1.3, True),
        ((1.5, 1.4, 1.6), 1.3, True),
        ((2.0, 1.9, 2.1), 1.3, False),
        ((1.0, 1.0, 1.0), 1.3, False),
    ],
)
def test_removal_agrees_in_its_interval_or_near(removal, gain, expected):
    assert agrees(removal, gain) is expected


def test_a_promise_of_a_healthy_job_is_an_alarm():
    assert mark_job("a", HEALTHY, outcome(said(promised=1.06))).alarm is True
    assert mark_job("a", HEALTHY, outcome(said(promised=1.04))).alarm is False
    assert mark_job("a", HEALTHY, outcome()).alarm is False


def test_a_document_of_the_product_is_read():
    document = diagnose_job([demo_job().timeline()])
    read = read_outcome("a", msgspec.json.encode(document))
    assert read.headline == document.verdict.headline
    assert [one.cause for one in read.found] == [
        one.cause for one in document.findings if one.severity != "info"
    ][:3]


def test_a_removal_that_is_not_known_is_none():
    document = msgspec.to_builtins(diagnose_job([demo_job().timeline()]))
    assert read_outcome("a", msgspec.json.encode(document)).found[0].removal
    document["findings"][0]["removal"]["speedup"] = None
    assert read_outcome("a", msgspec.json.encode(document)).found[0].removal is None
