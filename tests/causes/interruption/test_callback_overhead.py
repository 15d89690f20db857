"""Callbacks of a trainer that take time after every batch."""

from cured_twins import judge
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import ms
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(30): <module>"
WRITE = f"/job/train.py(8): on_train_batch_end;{LOOP}"


def train(callback_ms=5.0, work=RecordedJob.work):
    job = RecordedJob(framework="tensorflow")
    for _ in range(40):
        work_span = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call("optimizer\tModel.fit"), work_span:
            job.work(LOOP, ms(10))
        if callback_ms:
            with job.call("callback\tCallbackList.on_train_batch_end"):
                work(job, WRITE, ms(callback_ms))
    return job.timeline()


PAIRS = {"callback-overhead": Pair(sick=train, healthy=lambda: train(0.05))}


def test_it_is_an_interruption_at_its_line_whatever_the_thread_does_there():
    for work in (RecordedJob.work, RecordedJob.wait):
        found = diagnose_job([train(work=work)])
        assert found.findings[0].cause == "callback-overhead"
        assert found.findings[0].where[0].line == 8
        assert found.attribution.interruption > 0.3


def test_time_in_which_the_device_works_for_its_numbers_is_no_callback_s():
    job = RecordedJob(framework="jax", compiled=True)
    for _ in range(40):
        work = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call("optimizer\tjit(train_step)"), work:
            job.work(LOOP, ms(1))
        with job.call("callback\tCallbackList.on_train_batch_end"):
            with job.call("scalar_read\tpythonify_logs", HostKind.RUNTIME):
                job.wait(WRITE, ms(9))
            with job.call("device_idle\tdevice_idle"):
                pass
    assert judge("callback-overhead", job.timeline()) is None


def test_the_job_without_it_lies_within_the_prediction():
    predicted = judge("callback-overhead", train()).predicted
    ratio = Facts(train()).step_s / Facts(train(0)).step_s
    assert predicted.low <= ratio <= predicted.high * 1.02
