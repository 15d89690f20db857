"""Overlays say on the file's own clock what the diagnosis found."""

import pytest

from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.recordings.trace_overlay import make_overlays
from whyidle.testing.jobs import starved_by_loader


@pytest.fixture(scope="module")
def job():
    timeline = starved_by_loader().timeline()
    diagnosis = diagnose_job([timeline])
    (overlay,) = make_overlays([timeline], diagnosis)
    return Facts(timeline), diagnosis, {t.name: list(t.marks) for t in overlay.tracks}


def test_steps_stand_where_they_are(job):
    facts, _, tracks = job
    marks = tracks["whyidle steps"]
    origin = facts.timeline.source.origin_ns
    assert [m.start_ns for m in marks] == (origin + facts.steps.start).tolist()
    assert [m.start_ns + m.length_ns for m in marks] == (origin + facts.steps.end).tolist()
    assert {m.args["counted as"] for m in marks} <= {"steady", "warm-up"}
    assert sum(v for k, v in marks[-1].args.items() if k != "counted as") == pytest.approx(
        1, abs=1e-3
    )


def test_lost_stretches_sum_to_what_is_not_compute(job):
    facts, _, tracks = job
    marks = tracks["whyidle gaps"]
    low, high = facts.steps.window
    compute = facts.partition.parts["compute"].total
    assert sum(m.length_ns for m in marks) == high - low - compute
    ends = [m.start_ns + m.length_ns for m in marks]
    assert all(a <= b.start_ns for a, b in zip(ends, marks[1:], strict=False))


def test_gaps_name_the_findings_of_their_bucket(job):
    _, diagnosis, tracks = job
    loader = [m for m in tracks["whyidle gaps"] if m.args["reason"] == "loader"]
    assert loader
    assert "dataloader-no-workers" in str(loader[0].args["findings in this bucket"])
    assert len(tracks["whyidle findings"]) == len(diagnosis.findings)
    assert "fix 1" in tracks["whyidle findings"][0].args
