"""Pauses of jobs whose compiled steps run beside the thread that calls them."""

import pytest

from cured_twins import judge
from whyidle.analysis.facts import Facts
from whyidle.model.timeline import HostKind
from whyidle.testing.recorded_job import RecordedJob

MS = 1_000_000
STEP, READ = "/job/train.py(9): <module>", "/job/train.py(11): <module>"
NUMPY = "/usr/lib/python3.11/site-packages/numpy/lib/_npyio_impl.py"
SAVE = f"{NUMPY}(786): _savez;{NUMPY}(673): savez;{READ}"


def train(device_ms=40, save_ms=40, every=2):
    """Every second step its weights are read, which waits for the device, and written."""
    job = RecordedJob(framework="jax", version="0.10", compiled=True, cores=4.0)
    for step in range(40):
        begin = job.now
        with (
            job.call("optimizer\tjit(step)"),
            job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP),
        ):
            job.work(STEP, 1 * MS)
        if step % every:
            job.wait(READ, (2 * device_ms - 2) * MS)
            with job.call("device_idle\tdevice_idle"):  # as found when the next step is called
                job.python(SAVE, save_ms * MS)
        elif step > 10:
            job.spans.append((begin, begin + device_ms * MS, "execution\tjit(step)", HostKind.OP))
    return job


@pytest.mark.parametrize("save_ms", [40, 120])
def test_what_the_thread_does_while_the_device_works_says_nothing_of_the_save(save_ms):
    job = train(save_ms=save_ms)
    share = save_ms / (80 + save_ms)
    assert Facts(job.timeline()).bucket_share("checkpoint") == pytest.approx(share, abs=0.07)
    removal = judge("sync-checkpoint", job).removal
    assert removal.speedup == pytest.approx(1 / (1 - share), rel=0.05)


def test_a_save_that_waits_for_many_steps_is_no_loop_of_its_own():
    job = RecordedJob(framework="jax", version="0.10", compiled=True, cores=4.0)
    for _ in range(12):
        for _ in range(8):
            with job.call("optimizer\tjit(step)"):
                job.work(STEP, 1 * MS)
        with job.call("checkpoint\tnumpy.savez"):
            job.wait(READ, 152 * MS)
            with job.call("device_idle\tdevice_idle"):
                job.python(READ, 40 * MS)
    assert Facts(job.timeline()).bucket_share("interruption") == pytest.approx(0.2, abs=0.05)
    assert judge("sync-checkpoint", job) is not None


def test_what_an_evaluation_waits_for_is_its_own():
    evaluate = "/job/train.py(20): evaluate;/job/train.py(12): <module>"
    values = f"/usr/lib/python3.11/site-packages/jax/_src/array.py(640): _value;{evaluate}"
    job = RecordedJob(framework="jax", version="0.10", compiled=True, cores=4.0)
    for _ in range(12):
        for _ in range(8):
            with job.call("optimizer\tjit(step)"):
                job.work(STEP, 1 * MS)
            with job.call("scalar_read\tArrayImpl._value", HostKind.RUNTIME):
                job.wait(READ, 9 * MS)
        for _ in range(16):
            job.python(f"/job/train.py(25): ask;{evaluate}", 1 * MS)
            with job.call("scalar_read\tArrayImpl._value", HostKind.RUNTIME):
                job.wait(values, 4 * MS)
    assert Facts(job.timeline()).bucket_share("interruption") == pytest.approx(0.5, abs=0.05)
    proof = judge("heavy-evaluation", job)
    assert proof is not None
    assert proof.where[0].function == "evaluate"
