"""What is worth a trial, and what is passed over."""

import msgspec
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.fix.loop.candidates import SAFE, choose_candidates
from whyidle.model.diagnosis import Diagnosis, Predicted
from whyidle.testing.demo import job


@pytest.fixture(scope="module")
def starved() -> Diagnosis:
    return diagnose_job([job(loader_ms=42.0).timeline()])


def promising(found: Diagnosis, speedup: float, low: float, high: float) -> Diagnosis:
    """The diagnosis with workers alone, which promise this."""
    first = found.findings[0]
    (workers,) = [one for one in first.fixes if one.fix == "loader-workers"]
    told = Predicted(speedup=speedup, low=low, high=high, method="as the test says")
    only = msgspec.structs.replace(workers, predicted=told)
    return msgspec.structs.replace(found, findings=[msgspec.structs.replace(first, fixes=[only])])


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ((1.5, 1.2, 1.8), None),
        ((1.0, 1.0, 1.4), None),  # it may bring much, and costs nothing
        ((1.1, 0.8, 1.4), None),  # more is expected than may be lost
        ((1.0, 0.7, 1.2), "no gain predicted, and it may slow the job to 0.70×"),
        ((0.9, 0.7, 1.2), "no gain predicted, and it may slow the job to 0.70×"),
        ((1.01, 0.7, 1.2), "only 1.01× predicted, and it may slow the job to 0.70×"),
        ((1.0, 0.7, 1.01), "predicted at most 1.01×"),
        ((1.0, 1.0, 1.03), "no gain predicted, and at most 1.03×"),
        ((1.03, 1.0, 1.04), None),  # what is expected would be kept
    ],
)
def test_what_is_expected_to_bring_nothing_and_may_cost_is_not_tried(starved, told, why):
    ready, passed = choose_candidates(promising(starved, *told), SAFE)
    assert [one.why for one in passed] == ([why] if why else [])
    assert len(ready) == (0 if why else 1)


def two(found: Diagnosis, about: str | None, *told: tuple[float, float, float]) -> Diagnosis:
    """The diagnosis with workers for one cause, and staged data for another, and a verdict."""
    first = promising(found, *told[0]).findings[0]
    (fix,) = promising(found, *told[1]).findings[0].fixes
    rival = msgspec.structs.replace(
        first,
        cause="slow-storage",
        fixes=[msgspec.structs.replace(fix, fix="staged-data")],
    )
    verdict = msgspec.structs.replace(found.verdict, cause=about)
    return msgspec.structs.replace(found, findings=[first, rival], verdict=verdict)


@pytest.mark.parametrize(
    ("about", "told", "first"),
    [
        ("slow-storage", ((1.5, 1.2, 1.8), (1.1, 1.0, 1.6)), "staged-data"),
        ("slow-storage", ((1.5, 1.2, 1.8), (1.1, 1.0, 1.4)), "loader-workers"),  # clearly less
        ("dataloader-no-workers", ((1.5, 1.2, 1.8), (1.1, 1.0, 1.6)), "loader-workers"),
        (None, ((1.5, 1.2, 1.8), (1.1, 1.0, 1.6)), "loader-workers"),
    ],
)
def test_what_cures_the_verdicts_cause_is_tried_first(starved, about, told, first):
    ready, _ = choose_candidates(two(starved, about, *told), SAFE)
    assert (ready[0].fix, len(ready)) == (first, 2)


def test_the_verdict_names_the_cause_that_it_is_about(starved):
    assert starved.verdict.cause == "dataloader-no-workers"
