"""Jobs that are known to the rules' authors, under ``whyidle run``."""

import sys

import pytest

from field.processes import find_missing_imports
from field.score import mark_job
from field.truth import read_truth
from field.watch import watch_job

KNOWN = {name: job for name, job in read_truth().items() if job.half == "known"}
pytestmark = pytest.mark.live


@pytest.mark.parametrize("name", KNOWN)
def test_the_first_finding_on_a_known_job_is_right(name, tmp_path):
    missing = find_missing_imports({name: KNOWN[name]}, sys.executable)[name]
    if missing:
        pytest.skip(f"{', '.join(missing)} missing")
    outcome = watch_job(name, KNOWN[name], sys.executable, tmp_path)
    assert not outcome.error
    mark = mark_job(name, KNOWN[name], outcome)
    assert mark.alarm is False if KNOWN[name].healthy else mark.top1, outcome
