"""Debugging modes of watched jobs on the CPU."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle import catalog
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "debug-mode-left-on"
LOOP = "/job/train.py(20): train"
TRACED = f"/lib/linecache.py(72): checkcache;/x/torch/fx/traceback.py(5): format_stack;{LOOP}"
ASKED = {"anomaly_mode": f"/x/site-packages/torch/wrapped.py(2): on;/job/train.py(3): main;{LOOP}"}


def train(tracing=0.0, *, python=0.0, work=20.0, back=None, steps=40, **facts) -> RecordedJob:
    job = RecordedJob(**facts)
    for _ in range(steps):
        job.work(LOOP, ms(work))
        if tracing:
            job.python(TRACED, ms(tracing))
        if python:
            job.python("/job/train.py(30): score;" + LOOP, ms(python))
        job.backward(LOOP, ms(work if back is None else back))
        job.step(LOOP, ms(2))
    return job


def seen(mode: str, times: int, looks: int = 10) -> dict:
    return {"switches": {"seen": {mode: times, "looks": looks}}}


def test_anomaly_mode_is_named_and_what_it_does_is_no_python_of_the_job():
    sick = train(30, **seen("anomaly_mode", 10), asked=ASKED)
    proof = judge(CAUSE, sick)
    assert proof
    assert "anomaly mode" in proof.headline
    assert [(place.file, place.line) for place in proof.where] == [("/job/train.py", 3)]
    assert covers(proof, twin_speedup(sick, train()))
    for other in ("python-overhead-in-step", "python-between-operators"):
        assert judge(other, sick) is None


def test_gradients_are_searched_beside_what_samples_show():
    """The backward pass of the sick twin takes 20 ms longer, of which no sample tells."""
    sick = RecordedJob(**seen("anomaly_mode", 10))
    for _ in range(40):
        sick.work(LOOP, ms(10))
        sick.python(TRACED, ms(40))
        sick.backward(LOOP, ms(35))
        sick.step(LOOP, ms(2))
    proof = judge(CAUSE, sick)
    assert proof
    healthy = RecordedJob()
    for _ in range(40):
        healthy.work(LOOP, ms(10))
        healthy.backward(LOOP, ms(15))
        healthy.step(LOOP, ms(2))
    gain = twin_speedup(sick, healthy)
    assert covers(proof, gain)
    assert proof.predicted.speedup > 1 / (1 - 40 / 87) * 1.1


def test_python_that_ended_at_an_operator_is_the_recording_of_its_stack():
    asking = f"/x/site-packages/torch/nn/modules/linear.py(134): forward;{LOOP}"
    sick, whole = (RecordedJob(**seen("anomaly_mode", 10)) for _ in range(2))
    for job, stack in ((sick, asking), (whole, TRACED)):
        for _ in range(40):
            job.python(TRACED, ms(20))
            job.python(stack, ms(20))
            job.work(asking, ms(10))
            job.backward(LOOP, ms(20))
            job.step(LOOP, ms(2))
    told, most = (judge(CAUSE, job).predicted.speedup for job in (sick, whole))
    assert told == pytest.approx(most, rel=0.2)
    assert judge("python-overhead-in-step", sick) is None


def test_it_takes_no_more_than_there_is():
    proof = judge(CAUSE, train(200, work=5, **seen("anomaly_mode", 10)))
    assert proof.high <= 1 - 2 / 212


def test_python_of_the_job_s_own_is_still_seen():
    sick = train(30, python=30, **seen("anomaly_mode", 10))
    proof = judge("python-overhead-in-step", sick)
    assert proof
    assert proof.where[0].line == 30
    assert proof.high < 0.4


def test_a_mode_that_is_on_for_a_part_of_the_time_costs_as_much():
    whole = judge(CAUSE, train(work=0, back=40, **seen("anomaly_mode", 10)))
    part = judge(CAUSE, train(work=0, back=40, **seen("anomaly_mode", 2)))
    assert whole
    assert part
    assert part.high == pytest.approx(whole.high / 5)


@pytest.mark.parametrize(("on", "found"), [(5, True), (2, False)])
def test_a_profiler_must_be_on_in_every_look(on, found):
    proof = judge(CAUSE, train(own={"torch_profiler": on, "looks": 5}))
    assert (proof is not None) == found
    if proof:
        assert catalog.load_fixes()["debug-mode-off"].decide(proof)


SUMMED = "/x/site-packages/torch/autograd/profiler_util.py(90): key_averages;" + LOOP


def profiled(collecting=60, *, on=5, steps=40) -> RecordedJob:
    """A profiler sums up what it recorded in every step, which keeps the collector busy."""
    job = RecordedJob(own={"torch_profiler": on, "looks": 5})
    for step in range(40):
        job.work(LOOP, ms(20))
        job.python(SUMMED if step < steps else LOOP, ms(30))
        with job.call("Python GC", HostKind.OVERHEAD):
            job.python(SUMMED if step < steps else LOOP, ms(collecting))
        job.step(LOOP, ms(2))
    return job


def test_what_a_profiler_makes_the_collector_do_is_a_part_of_it():
    proof = judge(CAUSE, profiled())
    assert proof.bucket == "interruption"
    assert proof.predicted.speedup > 112 / 25
    assert judge("python-gc-pauses", profiled()) is None
    told = diagnose_job([profiled().timeline()])
    assert told.verdict.headline.endswith("The PyTorch profiler records every step")


@pytest.mark.parametrize(("steps", "found"), [(40, True), (20, False)])
def test_a_profiler_that_pauses_between_cycles_is_on_while_its_code_runs(steps, found):
    assert (judge(CAUSE, profiled(on=3, steps=steps)) is not None) == found


def test_deterministic_algorithms_alone_are_worth_no_warning():
    proof = judge(CAUSE, train(**seen("deterministic", 10)))
    assert proof
    assert 1 - 1 / proof.predicted.speedup < 0.03


def test_no_mode():
    assert judge(CAUSE, train(switches={"seen": {"looks": 5}}, own={"looks": 5})) is None


def test_traced_allocations_are_named_with_the_line_that_began_it():
    own = {"own": {"tracemalloc_stacks": 4, "looks": 4}}
    asked = {"tracemalloc": "/job/meter.py(5): __enter__;/job/train.py(3): main"}
    proof = judge(CAUSE, train(python=20, **own, asked=asked))
    assert proof
    assert "tracemalloc" in proof.headline
    assert [(place.file, place.line) for place in proof.where] == [("/job/meter.py", 5)]
    assert proof.predicted.low > 1.1
    assert judge(CAUSE, train(python=20, own={"tracemalloc_stacks": 1, "looks": 4})) is None


def test_autocast_to_a_type_that_the_processor_lacks_is_advised_against():
    proof = judge(CAUSE, train(own={"narrow_cpu": 5, "looks": 5}))
    assert proof
    assert "16 bits" in proof.headline
    (plan,) = [
        plan
        for fix in catalog.load_fixes().values()
        if CAUSE in fix.causes and (plan := fix.decide(proof)) is not None
    ]
    assert "float32" in plan.summary
