"""What is proposed after a diagnosis."""

import msgspec
import pytest

from whyidle.cli import _next_steps
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Attribution, FixedJob, Trial
from whyidle.testing.demo import job


@pytest.fixture(scope="module")
def watched():
    found = diagnose_job([job(loader_ms=42.0).timeline()])
    run = msgspec.structs.replace(found.run, command=["python", "my train.py"])
    return msgspec.structs.replace(found, run=run)


@pytest.fixture(scope="module")
def fixed(watched):
    """The same job after trials; another run holds what it became."""
    trial = Trial(
        fix="loader-workers", consent="rounding", baseline=0.2, treated=0.1, speedup=2.0,
        low=1.8, high=2.2, predicted=None, numerics=None, kept=True, why="",
    )  # fmt: skip
    told = FixedJob(
        run="THEN",
        attribution=Attribution(**dict.fromkeys(BUCKETS, 0.0)),
        state="saturated",
        headline="fine",
        speedup=2.0,
        low=1.8,
        high=2.2,
    )
    detail = msgspec.structs.replace(watched.detail, fixed=told)
    return msgspec.structs.replace(watched, trials=[trial], detail=detail)


def commands(diagnosis):
    return [command for command, _ in _next_steps.after_report(diagnosis, "NOW")]


def test_a_watched_job_with_a_fix_that_can_be_tried_is_told_how(watched):
    found = commands(watched)
    assert found[0] == "whyidle fix python 'my train.py'"
    assert found[-1] == "whyidle compare NOW AFTER"


@pytest.mark.parametrize(("status", "first"), [(0, True), (1, False), (137, False), (130, True)])
def test_a_command_that_failed_is_not_first_told_to_be_run_again(watched, status, first):
    run = msgspec.structs.replace(watched.run, exit_status=status)
    steps = _next_steps.after_report(msgspec.structs.replace(watched, run=run), "NOW")
    (place,) = [i for i, (command, _) in enumerate(steps) if "whyidle fix" in command]
    assert place == (0 if first else len(steps) - 1)
    assert steps[place][1].startswith("try" if first else "when the command no longer fails")
    assert any("--html" in command for command, _ in steps) is first  # a report of one screen


def test_a_job_whose_fixes_were_tried_is_compared_with_what_it_became(fixed):
    found = commands(fixed)
    assert not any("whyidle fix" in command for command in found)
    assert found[-1] == "whyidle compare NOW THEN"
