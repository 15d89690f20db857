"""Where steps begin and end, whichever mark the recording holds."""

import numpy as np
import pytest

from watched_run import add_facts
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.step_detection import find_steps
from whyidle.testing.builder import Builder, ms, us


def train(job: Builder, steps: int, *, marks: bool = True, first: int = 0, optimizer: bool = True):
    for i in range(steps):
        if marks:
            with job.step():
                body(job, first if i == 0 else 0, optimizer)
        else:
            body(job, first if i == 0 else 0, optimizer)


def body(job: Builder, extra: int, optimizer: bool) -> None:
    job.python("train.py(3): prepare", us(200) + extra)
    for _ in range(5):
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(100))])
    if optimizer:
        job.optimizer([("multi_tensor_apply_kernel<A>", us(20))])


def test_profiler_marks_win():
    job = Builder()
    train(job, 5)
    steps = find_steps(job.timeline())
    assert steps.found_by == "ProfilerStep"
    assert steps.confidence == 1.0
    assert len(steps) == 5
    assert steps.steady[1:].all()


def test_marks_beside_all_of_the_work_are_no_steps():
    job = Builder()
    for _ in range(3):
        with job.step():
            job.quiet(us(1))
    train(job, 120, marks=False, optimizer=False)
    assert find_steps(job.timeline()).found_by is None


def test_optimizer_calls_where_there_are_no_marks():
    job = Builder()
    train(job, 5, marks=False)
    steps = find_steps(job.timeline())
    assert steps.found_by == "optimizer"
    assert len(steps) == 5


def test_two_optimizers_make_one_step():
    job = Builder()
    for _ in range(4):
        body(job, 0, optimizer=False)
        job.optimizer([("multi_tensor_apply_kernel<A>", us(20))], name="Adam")
        job.optimizer([("multi_tensor_apply_kernel<A>", us(20))], name="SGD")
    assert len(find_steps(job.timeline())) == 4


def test_loader_rhythm():
    job = Builder()
    for _ in range(5):
        job.loader(us(300))
        body(job, 0, optimizer=False)
    steps = find_steps(job.timeline())
    assert steps.found_by == "DataLoader"
    assert len(steps) == 5


def test_repetition_needs_an_optimizer():
    layers = Builder()
    train(layers, 6, marks=False, optimizer=False)
    assert find_steps(layers.timeline()).found_by is None
    trained = Builder()
    for _ in range(6):
        for _ in range(5):
            trained.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(100))])
        trained.op("aten::_foreach_add_", kernels=[("multi_tensor_apply_kernel<A>", us(20))])
    steps = find_steps(trained.timeline())
    assert steps.found_by == "repetition of the kernel sequence"
    assert steps.confidence < 0.9
    assert len(steps) == 6


def test_a_long_first_step_is_warm_up():
    job = Builder()
    train(job, 6, first=us(20_000))
    steps = find_steps(job.timeline())
    assert steps.steady.tolist() == [False] + [True] * 5


def test_steps_end_when_their_device_work_ends():
    job = Builder()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(5000))], host=us(10))
    timeline = job.timeline()
    steps = find_steps(timeline)
    assert (np.diff(steps.end) >= us(5000)).all()
    assert steps.end[-1] == timeline.device.end.max()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_steps(count):
    job = Builder()
    train(job, count)
    assert len(find_steps(job.timeline())) == count


def test_nothing_found_is_one_window():
    job = Builder()
    job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(100))])
    steps = find_steps(job.timeline())
    assert steps.found_by is None
    assert len(steps) == 1
    assert steps.steady.all()


def waiting(job: Builder) -> None:
    job.runtime("cudaMemcpyAsync", us(4000))


@pytest.mark.parametrize("idle", [lambda job: job.quiet(us(4000)), waiting])
def test_a_recording_that_begins_in_a_step_frays_it(idle):
    job = Builder()
    for i in range(5):
        with job.step():
            if i == 0:
                idle(job)
            job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(3000))])
            job.sync()
    steps = find_steps(job.timeline())
    assert steps.steady.tolist() == [False, True, True, True, True]


def ahead(behind: int, shown: str = "") -> Builder:
    """Three steps of a host that is faster than its device, which is behind by so much."""
    job = Builder()
    job.behind(behind, shown=shown)
    train_slowly(job, 3)
    return job


def train_slowly(job: Builder, steps: int) -> None:
    for _ in range(steps):
        with job.step():
            for _ in range(5):
                job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(4))])


@pytest.mark.parametrize("shown", ["", "ampere_sgemm_64x64_tn"])
@pytest.mark.parametrize("behind", [ms(3), ms(30), ms(300)])
def test_on_a_device_that_is_behind_the_first_step_begins_with_its_work(behind, shown):
    timeline = ahead(behind, shown).timeline()
    steps = find_steps(timeline)
    assert steps.start[0] == timeline.device.start[1 if shown else 0]
    assert steps.steady.all()
    assert np.ptp(steps.end - steps.start) < us(20)
    shares = Facts(timeline).attribution
    assert shares["compute"] > 0.99
    assert shares["unknown"] == 0.0


def test_a_device_that_is_not_behind_waits_from_the_host_s_first_moment():
    timeline = ahead(0).timeline()
    steps = find_steps(timeline)
    assert steps.start[0] == steps.on_host[0][0] < timeline.device.start.min()


@pytest.mark.parametrize("steps", [2, 3])
def test_a_wait_for_earlier_work_ends_where_the_first_step_begins(steps):
    job = Builder()
    job.behind(ms(600))
    with job.step():
        job.sync()
        job.python("train.py(3): report", ms(2))
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(20))])
    train_slowly(job, steps - 1)
    timeline = job.timeline()
    found = find_steps(timeline)
    waited = timeline.host.end[timeline.names.index("cudaStreamSynchronize") == timeline.host.name]
    assert found.start[0] == waited[0]
    assert found.steady.tolist() == [steps < 3, *[True] * (steps - 1)]
    facts = Facts(timeline)
    assert not facts.cold_start
    assert facts.attribution["unknown"] == 0.0
    refilled = pytest.approx(2e-3, rel=0.1) if steps < 3 else 0.0
    assert facts.reasons["sync_refill"] * facts.scope_s == refilled


def test_a_first_step_that_launches_nothing_stays_where_the_host_has_it():
    job = Builder()
    job.behind(ms(60))
    with job.step():
        job.python("train.py(3): prepare", ms(1))
    train_slowly(job, 3)
    steps = find_steps(job.timeline())
    assert steps.start[0] == steps.on_host[0][0]
    assert (steps.end > steps.start).all()


@pytest.mark.parametrize("burst", [False, True])
def test_a_long_first_step_is_a_cold_start_of_a_run_and_none_of_a_burst(burst):
    """Somebody else had the machine, or a collection looked through everything."""
    job = Builder()
    with job.step():
        job.quiet(ms(300))
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(20))])
        job.sync()
    train_slowly(job, 2)
    timeline = job.timeline()
    told = {"burst": {"window": "profile of steps 8 to 10"}} if burst else {}
    facts = Facts(add_facts(timeline, {**told}))
    assert facts.cold_start is not burst
    assert facts.step_count == (2 if burst else 3)
    assert (facts.attribution["interruption"] > 0.5) is not burst
