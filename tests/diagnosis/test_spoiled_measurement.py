"""What spoils a measurement is said: other programs, a slow start, skipped steps."""

from dataclasses import replace

import pytest
from imagined import Imagined

from watched_run import add_facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.recorded_job import RecordedJob


def notes_of_ranks(*skipped):
    """Of ranks of 40 steps each."""
    made = Builder()
    for _ in range(40):
        with made.step():
            made.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(3))])
            made.optimizer(kernels=[("elementwise_kernel", us(3))], name="Adam")
    timeline = made.timeline()
    ranks = [
        add_facts(replace(timeline, rank=rank, world_size=len(skipped)), {"skipped_steps": count})
        for rank, count in enumerate(skipped)
    ]
    return [note for note in diagnose_job(ranks).coverage.notes if "skipped" in note]


def test_many_skipped_steps_are_told():
    (note,) = notes_of_ranks(30)
    assert note.startswith("gradient scaling skipped 30 of 40 optimizer steps")
    assert "explains at most 16" in note


def test_the_worst_rank_counts():
    (note,) = notes_of_ranks(0, 25)
    assert "skipped 25 of" in note


@pytest.mark.parametrize("skipped", [None, 0, 16])
def test_a_scale_that_is_searched_for_is_no_news(skipped):
    assert notes_of_ranks(skipped) == []


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


def notes_beside(tmp_path, *, own, busy, idle, threads=1):
    job = Imagined(tmp_path, switches={"num_threads": threads})
    for _ in range(200):
        job.step()
    job.trained()
    cpu = {"job_cpu_user_s": own, "machine_cpu_user_s": busy, "machine_cpu_idle_s": idle}
    job.telemetry({name: (rate, 0.0) for name, rate in cpu.items()})
    return [note for note in job.diagnose().coverage.notes if "other programs" in note]


def test_neighbours_on_a_full_machine_are_told(tmp_path):
    (note,) = notes_beside(tmp_path, own=0.9, busy=1.96, idle=0.04)
    assert note.startswith("other programs used 1.1 of the machine's 2 cores")
    assert note.endswith("repeat the run on an idle machine")


@pytest.mark.parametrize(("others", "told"), [(1.1, True), (0.3, False)])
def test_threads_of_operators_that_have_no_core_left_are_told(tmp_path, others, told):
    (note,) = notes_beside(tmp_path, own=1.96 - others, busy=1.96, idle=0.04, threads=2)
    assert ("OMP_NUM_THREADS=1 here" in note) is told


@pytest.mark.parametrize(
    "used",
    [
        {"own": 1.95, "busy": 2.0, "idle": 0.0},
        {"own": 1.0, "busy": 3.0, "idle": 5.0},
        {"own": 0.5, "busy": 0.6, "idle": 1.4},
        {"own": 0.0, "busy": 0.0, "idle": 0.0},
    ],
    ids=["its own processes", "idle cores", "a quiet machine", "too short to count"],
)
def test_not_where_there_is_room_or_nobody_else(tmp_path, used):
    assert notes_beside(tmp_path, **used) == []
