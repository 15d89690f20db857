"""Several runs side by side."""

from __future__ import annotations

import msgspec
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.documents.run_table import RunTable
from whyidle.runs.run_table import build_run_table
from whyidle.testing.demo import job

replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def runs():
    return [diagnose_job([job(loader_ms=ms).timeline()]) for ms in (42.0, 2.0, 20.0)]


def test_each_run_is_compared_with_the_baseline(runs):
    table = build_run_table(runs, 1)
    slow, base, middle = table.runs
    assert base.name == table.baseline
    assert base.change is None
    assert slow.change.ratio > middle.change.ratio > 1.0
    assert len(table.comparisons) == 2
    assert slow.cause == "dataloader-no-workers"


def test_numbers_are_those_of_the_diagnosis(runs):
    row = build_run_table(runs).runs[0]
    assert row.step_s == runs[0].steps.mean_s
    assert row.host_s == pytest.approx(runs[0].attribution.host * runs[0].steps.mean_s)
    assert row.first_step_s is None  # a trace does not begin with the job


def test_the_first_step_is_that_of_a_watched_command(runs):
    watched = replace(runs[0], run=replace(runs[0].run, command=["python", "t.py"]))
    row = build_run_table([watched, *runs[1:]]).runs[0]
    assert row.first_step_s == runs[0].detail.step_times_s[0]


def test_steps_of_other_sizes_are_noted(runs):
    sized = [
        replace(run, steps=replace(run.steps, samples_per_s=size / run.steps.mean_s))
        for run, size in zip(runs, (64, 64, 128), strict=True)
    ]
    assert "64 to 128 samples" in build_run_table(sized).notes[0]
    assert "64 to" not in " ".join(build_run_table(sized[:2]).notes)


def test_round_trips(runs):
    text = msgspec.json.encode(build_run_table(runs))
    assert msgspec.json.encode(msgspec.json.decode(text, type=RunTable)) == text
