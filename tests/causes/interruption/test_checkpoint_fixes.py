"""What it is worth to write checkpoints beside the training of a CPU job, and less often."""

from dataclasses import replace

import pytest

from cured_twins import judge_all
from watched_run import add_facts, add_telemetry
from whyidle import catalog
from whyidle.causes.interruption.sync_checkpoint import FAILURES_S
from whyidle.model.loader_tables import Loading
from whyidle.testing.builder import Builder, ms
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "sync-checkpoint"
LOOP = "/job/train.py(20): main"


def job(saves=(), *, only=None, device="cpu", cores=2.0, threads=2):
    """Steps of 10 ms, and 40 ms more after each second one, or after one of them, which saves."""
    guest = RecordedJob(device=device)
    for step in range(24):
        guest.backward(LOOP, ms(9))
        guest.step(LOOP, ms(1))
        if step == only or (only is None and step % 2):
            with guest.call("save_checkpoint"):
                guest.python(f"torch/serialization.py(900): save;{LOOP}", ms(40))
    told = guest.timeline()
    return add_facts(
        replace(told, loading=Loading(cores=cores, threads=threads)), {"saves": list(saves)}
    )


def saves(cpu_s, size=1_000_000):
    """As a watched process notes them."""
    return [{"path": "model.pt", "bytes": size, "seconds": 0.04, "cpu_s": cpu_s}] * 4


def promised(timeline, name="async-checkpoint"):
    proof = judge_all(CAUSE, [timeline])
    assert proof is not None
    plan = catalog.load_fixes()[name].decide(proof)
    return plan and (plan.predicted or proof.predicted)


def test_who_writes_beside_a_cpu_job_takes_its_cores():
    """Of steps of 30 ms 20 go by in saving: all of it is won if it only waits, a third or less of
    the step if it works on two cores that are busy."""
    waits, works = promised(job(saves(0.0))), promised(job(saves(0.04)))
    assert waits.speedup > 1.8
    assert 1.4 > works.speedup > 1.0
    assert works.low < waits.low
    unknown = promised(job())
    assert unknown.speedup == pytest.approx(works.speedup, rel=0.05)


def test_a_free_core_writes_at_no_cost():
    free, busy = job(saves(0.04), threads=1), job(saves(0.04), threads=2)
    assert promised(free).speedup > promised(busy).speedup


def test_a_state_that_takes_longer_to_copy_than_to_save_wins_nothing():
    """100 MB are copied in 100 ms where memory is slow: saving takes 40 ms now."""
    large = promised(job(saves(0.0, 100_000_000)))
    assert large.speedup == 1.0
    assert large.low < 1.0 < large.high


def test_cores_are_those_of_its_process_in_a_job_that_has_no_loader():
    """A trial's look reads nothing beside it."""
    untold = job(saves(0.04), cores=None, threads=None)
    told = {"cores": 2.0, "switches": {"num_threads": 1}}
    known = add_facts(untold, {**told})
    assert promised(known) == promised(job(saves(0.04), threads=1))


def test_or_are_read_beside_it():
    untold = job(saves(0.04), cores=None, threads=None)
    read = add_telemetry(untold, {"cores_effective": 2.0})
    assert promised(read) == promised(job(saves(0.04)))


def test_where_the_cores_are_not_told_nobody_knows_what_the_copy_takes():
    untold = job(saves(0.04), cores=None)
    assert promised(untold) == judge_all(CAUSE, [untold]).predicted


def test_a_gpu_goes_on_while_a_core_writes():
    made = Builder()
    for _ in range(6):
        with made.step(), made.span(LOOP, "python_function"):
            made.op("aten::mm", kernels=[("gemm", ms(10))])
            made.sync()
            made.python("torch/serialization.py(900): save", ms(40))
    with_cores = replace(made.timeline(), loading=Loading(cores=2.0, threads=2))
    assert promised(with_cores) == judge_all(CAUSE, [with_cores]).predicted


def test_as_rare_as_loses_the_least_time():
    """One of 40 ms every 60: with a failure a day, one every 83 s."""
    proof = judge_all(CAUSE, [job()])
    plan = catalog.load_fixes()["rarer-checkpoint"].decide(proof)
    apart = (2 * 0.04 * FAILURES_S[1]) ** 0.5
    assert proof.facts.interval_s[1] == pytest.approx(apart, rel=0.01)
    assert "at the end only, if the job lasts less than 83 seconds" in plan.summary
    assert "else every 83 seconds, instead of every 0.06" in plan.summary
    assert not plan.automatic
    assert plan.predicted.speedup == pytest.approx(3.0, rel=0.1)


def test_a_long_job_is_not_told_of_its_end():
    fix = catalog.load_fixes()["rarer-checkpoint"]
    proof = judge_all(CAUSE, [job()])
    for seen_s, short in ((82.0, True), (84.0, False)):
        told = replace(proof, facts=replace(proof.facts, interval_s=(4.0, 83.0), seen_s=seen_s))
        assert ("at the end only" in fix.decide(told).summary) == short
    assert "save every 83 seconds instead of every 4 seconds:" in fix.decide(told).summary


def test_a_job_that_ends_at_once_has_its_last_checkpoint_left():
    """Twelve saves in its second of life: eleven of them are not needed."""
    proof = judge_all(CAUSE, [job()])
    share = 1.0 - 1.0 / promised(job(), "rarer-checkpoint").low
    whole = 1.0 - 1.0 / proof.facts.rarer.high
    assert share < whole * 11 / 12 + 0.01


def test_one_alone_does_not_tell_how_often_it_comes():
    assert promised(job(only=12), "rarer-checkpoint") is None
