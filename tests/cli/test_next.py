"""What is proposed after a diagnosis."""

import msgspec
import pytest

from whyidle.cli import _next
from whyidle.engine.diagnose import diagnose
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Attribution, Healed, Trial
from whyidle.testing.demo import job


@pytest.fixture(scope="module")
def watched():
    found = diagnose([job(loader_ms=42.0).timeline()])
    run = msgspec.structs.replace(found.run, command=["python", "my train.py"])
    return msgspec.structs.replace(found, run=run)


@pytest.fixture(scope="module")
def healed(watched):
    """The same job after trials; another run holds what it became."""
    trial = Trial(
        treatment="loader-workers", consent="rounding", baseline=0.2, treated=0.1, speedup=2.0,
        low=1.8, high=2.2, predicted=None, numerics=None, kept=True, why="",
    )  # fmt: skip
    told = Healed(
        run="THEN",
        attribution=Attribution(**dict.fromkeys(BUCKETS, 0.0)),
        state="saturated",
        headline="fine",
        speedup=2.0,
        low=1.8,
        high=2.2,
    )
    detail = msgspec.structs.replace(watched.detail, healed=told)
    return msgspec.structs.replace(watched, trials=[trial], detail=detail)


def commands(diagnosis):
    return [command for command, _ in _next.after_report(diagnosis, "NOW")]


def test_a_watched_job_with_a_fix_that_can_be_tried_is_told_how(watched):
    found = commands(watched)
    assert found[0] == "whyidle fix python 'my train.py'"
    assert found[-1] == "whyidle compare NOW AFTER"


def test_a_job_whose_fixes_were_tried_is_compared_with_what_it_became(healed):
    found = commands(healed)
    assert not any("whyidle fix" in command for command in found)
    assert found[-1] == "whyidle compare NOW THEN"
