"""Results of compiled steps that are read in every step."""

import pytest

from cured_twins import covers, judge
from whyidle.model.timeline import HostKind
from whyidle.testing.recorded_job import RELEASED_US, RecordedJob

CAUSE = "per-step-host-sync"
MS = 1_000_000
LOAD = "/job/train.py(5): load_batch;/job/train.py(8): <module>"
STEP, READ = "/job/train.py(9): <module>", "/job/train.py(10): <module>"


def train(load_ms=20, device_ms=40, *, reads=True, cores=4.0, waits=False):
    job = RecordedJob(framework="jax", version="0.10", compiled=True, cores=cores)
    if waits:
        job.facts["py_dataset"] = {"making": "/job/train.py(5): load_batch", "workers": 2}
    for _ in range(20):
        if waits:
            with job.call("batch_from_iterator\tdata"):
                job.wait(LOAD, load_ms * MS)
        else:
            job.python(LOAD, load_ms * MS)
        with (
            job.call("optimizer\tjit(step)"),
            job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP),
        ):
            job.work(STEP, 1 * MS)
        if reads:
            with job.call("scalar_read\tArrayImpl._value", HostKind.RUNTIME):
                job.wait(READ, (device_ms - 1) * MS)
            with job.call("device_idle\tdevice_idle"):
                pass
        else:
            job.wait(STEP, max(device_ms - load_ms - 1, 0) * MS)
    return job


@pytest.mark.parametrize(("load_ms", "device_ms"), [(20, 40), (40, 20)])
def test_without_reads_a_step_takes_the_longer_of_both(load_ms, device_ms):
    proof = judge(CAUSE, train(load_ms, device_ms))
    assert proof is not None
    assert covers(proof, (load_ms + device_ms) / max(load_ms, device_ms))
    assert proof.where[0].line == 10


def test_nothing_is_won_where_the_host_does_nothing():
    assert judge(CAUSE, train(load_ms=0)) is None


def test_results_that_are_not_read_are_left_alone():
    assert judge(CAUSE, train(reads=False)) is None


def test_batches_of_other_threads_come_no_sooner_without_reads():
    assert judge(CAUSE, train(waits=True)) is None


def compiled_job():
    return RecordedJob(framework="jax", version="0.10", compiled=True, cores=4.0)


def step(job, device_ms, *, reads=False):
    """A compiled step, which is read, or keeps its thread."""
    with job.call("optimizer\tjit(step)"):
        job.work(STEP, (1 if reads else device_ms) * MS)
    if reads:
        with job.call("scalar_read\tArrayImpl._value", HostKind.RUNTIME):
            job.wait(READ, (device_ms - 1) * MS)
    with job.call("device_idle\tdevice_idle"):
        pass


def test_python_that_the_device_would_hide_is_the_reads():
    """Of 40 ms of Python 20 remain beside a device that is not waited for."""
    job = compiled_job()
    for _ in range(30):
        job.python("/job/train.py(8): <module>", 40 * MS)
        step(job, 20, reads=True)
    proof = judge("python-overhead-in-step", job)
    assert proof.high == pytest.approx(40 / 60 - 20 / 60, abs=0.06)


@pytest.mark.parametrize(("every", "found"), [(1, True), (64, False)])
def test_a_wait_at_the_end_of_an_epoch_hides_no_more_than_a_few_steps(every, found):
    job = compiled_job()
    for number in range(128):
        job.wait(LOAD, 5 * every * MS if number % every == every - 1 else 0)
        step(job, 5, reads=True)
    proof = judge(CAUSE, job)
    assert (proof is not None and proof.predicted.speedup > 1.5) == found


JAX = "/env/lib/python3.11/site-packages/jax/_src/dispatch.py(88): apply_primitive"


@pytest.mark.parametrize(("inner", "gains"), [(f"{JAX};", False), ("", True)])
def test_a_frameworks_own_dispatch_cannot_be_made_rarer(inner, gains):
    job = compiled_job()
    for _ in range(30):
        job.python(inner + STEP, 10 * MS, held=RELEASED_US)
        step(job, 20)
    proof = judge("python-overhead-in-step", job)
    assert proof.high > 0.15
    assert (proof.predicted.speedup > 1.03) == gains


@pytest.mark.parametrize(("inner", "blamed"), [(f"{JAX};", False), ("", True)])
def test_a_wait_inside_the_framework_is_no_report(inner, blamed):
    job = compiled_job()
    for _ in range(30):
        job.wait(inner + STEP, 60 * MS)
        step(job, 20)
    assert (judge("blocking-logging-upload", job) is not None) == blamed
