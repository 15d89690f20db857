"""Batches from the job's own producers: told as input, and not as logging."""

import pytest

from cured_twins import judge
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import ms
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(15): main;/job/train.py(30): <module>"
LIB = "/usr/lib/python3.11"
CONNECTION = (
    f"{LIB}/multiprocessing/connection.py(395): _recv;"
    f"{LIB}/multiprocessing/connection.py(430): _recv_bytes;"
    f"{LIB}/multiprocessing/connection.py(216): recv_bytes"
)
TAKEN = {
    "a process's queue": f"{CONNECTION};{LIB}/multiprocessing/queues.py(103): get",
    "a thread's queue": f"{LIB}/threading.py(327): wait;{LIB}/queue.py(171): get",
    "a pipe": f"{CONNECTION[:-6]};{LIB}/multiprocessing/connection.py(250): recv",
    "a pool": f"{LIB}/threading.py(327): wait;{LIB}/multiprocessing/pool.py(861): next",
    "an executor": f"{LIB}/threading.py(327): wait;{LIB}/concurrent/futures/_base.py(451): result",
}


def train(waits, wait_ms=60, steps=30, loop=LOOP):
    job = RecordedJob()
    for _ in range(steps):
        if wait_ms:
            job.wait(f"{waits};{loop}" if waits else loop, ms(wait_ms))
        job.backward(loop, ms(30))
        job.step(loop, ms(10))
    return job.timeline()


@pytest.mark.parametrize("waits", TAKEN.values(), ids=TAKEN)
def test_a_wait_for_the_job_s_own_producer_is_input(waits):
    job = train(waits)
    proof = judge("slow-producer", job)
    assert (proof.where[0].file, proof.where[0].line) == ("/job/train.py", 15)
    assert judge("blocking-logging-upload", job) is None
    found = diagnose_job([job])
    assert (found.verdict.bound, found.findings[0].cause) == ("input", "slow-producer")
    assert found.attribution.input == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize("folder", ["queue", "lightning", "wandb", "torch", "re", "matplotlib"])
def test_the_user_s_folder_may_be_called_as_a_library_is(folder):
    loop = f"/home/me/{folder}/train.py(15): <module>"
    job = train(TAKEN["a process's queue"], loop=loop)
    proof = judge("slow-producer", job)
    assert (proof.where[0].file, proof.where[0].line) == (f"/home/me/{folder}/train.py", 15)
    assert diagnose_job([job]).findings[0].cause == "slow-producer"


def test_what_no_wait_would_bring_lies_within_the_prediction():
    predicted = judge("slow-producer", train(TAKEN["a process's queue"])).predicted
    without = Facts(train("", wait_ms=0)).step_s
    assert predicted.low <= 1.1
    assert predicted.speedup == pytest.approx(2.0)
    assert predicted.high == pytest.approx(0.1 / without, rel=0.1)


@pytest.mark.parametrize(
    "waits",
    [
        "",
        f"{CONNECTION};/usr/lib/python3.11/site-packages/wandb/sdk/lib/mailbox.py(90): get",
        f"{LIB}/threading.py(327): wait;{LIB}/queue.py(171): get;"
        "/usr/lib/python3.11/site-packages/tracker/client.py(9): flush",
    ],
)
def test_other_waits_are_not(waits):
    job = train(waits)
    assert judge("slow-producer", job) is None
    assert judge("blocking-logging-upload", job) is not None


def test_a_short_wait_is_not_worth_a_word():
    assert judge("slow-producer", train(TAKEN["a thread's queue"], wait_ms=1)) is None


def looked_at(phases, every):
    """The same with looks that come at even times, however short what they meet: (stack, length,
    whether it runs) of all of it, ns."""
    job, looks, ran = RecordedJob(), [], 0
    for stack, length, runs in phases:
        begin = job.now
        if stack == "backward":
            job.backward(LOOP, length)
        elif stack == "step":
            job.step(LOOP, length)
        else:
            job.now += length
        first = -(-begin // every) * every
        line = LOOP if stack in ("backward", "step") else stack
        looks += [
            (time, ran + (time - begin if runs else 0), line, 0)
            for time in range(first, begin + length, every)
        ]
        ran += length if runs else 0
    job.samples = looks
    return job.timeline()


def test_short_work_before_a_wait_is_no_blocking_call():
    """After a look at it the thread sleeps for most of the time until the next one."""
    waits = f"{TAKEN['a pipe']};{LOOP}"
    work = "/job/train.py(16): main;/job/train.py(30): <module>"
    step = [
        (waits, ms(12), False),
        (work, ms(4), True),
        ("backward", ms(2), True),
        ("step", ms(1), True),
    ]
    found = {one.cause for one in diagnose_job([looked_at(step * 200, ms(17))]).findings}
    assert "slow-producer" in found
    assert "blocking-logging-upload" not in found


PAIRS = {
    "slow-producer": Pair(
        sick=lambda: train(TAKEN["a pipe"]), healthy=lambda: train(TAKEN["a pipe"], wait_ms=1)
    )
}
