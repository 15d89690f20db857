"""A cold start is a note with numbers of its own, and no share of steady steps."""

import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.recorded_job import RecordedJob

COMPILER = "torch/_inductor/compile_fx.py(900): compile_fx"


@pytest.mark.parametrize(("slow", "told"), [(15, True), (2, False)])
def test_a_slow_start_is_told_with_its_length(slow, told):
    job = RecordedJob()
    for number in range(60):
        job.backward("/job/train.py(20): <module>", ms(90 if number < slow else 20))
        job.step("/job/train.py(21): <module>", ms(10))
    notes = " ".join(diagnose_job([job.timeline()]).coverage.notes)
    assert ("the first 15 steps took 100 ms each on average, 53% of the recorded" in notes) == told
    assert ("findings cover the 45 steady steps" in notes) == told


def recording(steady: int, *, loader_ms: float = 0.0):
    """One step of a second that compiles, and steps of 25 ms."""
    job = Builder()
    for step in range(1 + steady):
        with job.step():
            if not step:
                job.python(COMPILER, ms(975))
            if loader_ms:
                job.loader(ms(loader_ms))
            job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(25 - loader_ms) - us(50))])
            job.sync()
    return job.timeline()


def test_a_cold_start_is_no_share_of_the_steady_steps_behind_it():
    told = diagnose_job([recording(39)])
    assert told.verdict.bound == "compute"
    assert told.verdict.state != "starved"
    assert told.attribution.interruption < 0.01
    assert told.attribution.compute > 0.9
    (note,) = [note for note in told.coverage.notes if note.startswith("slow start: ")]
    assert "the first step took 1 s, 51% of the recorded time" in note
    assert "98% of it compiling" in note
    found = next(one for one in told.findings if one.cause == "compile-autotune-warmup")
    assert (found.severity, found.lost.high) == ("info", 0.0)
    assert "975 ms" in found.headline


def test_what_is_slow_in_the_steady_steps_is_found_behind_a_cold_start():
    told = diagnose_job([recording(39, loader_ms=15.0)])
    assert told.findings[0].cause == "dataloader-no-workers"
    assert told.verdict.bound == "input"
    assert told.attribution.input == pytest.approx(0.6, abs=0.02)


def test_a_recording_of_hardly_more_than_a_cold_start_is_judged_as_one():
    told = diagnose_job([recording(5)])
    assert told.verdict.bound == "interruption"
    assert told.findings[0].cause == "compile-autotune-warmup"
    assert "shares and findings cover all steps" in " ".join(told.coverage.notes)
