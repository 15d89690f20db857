"""A replay without a change is the recording; with one, it is the recording of the changed job."""

from itertools import pairwise

import numpy as np
import pytest

from imagined_jobs import SICK, healthy
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.step_replay import no_change
from whyidle.testing.builder import Builder, us


@pytest.mark.parametrize("job", [*SICK.values(), healthy], ids=[*SICK, "healthy"])
def test_without_a_change_it_gives_the_recorded_time(job):
    facts = Facts(job().timeline())
    low, high = facts.scope.start[0], facts.scope.end[-1]
    assert facts.replay.base_ns == pytest.approx(high - low, rel=1e-3)
    assert facts.replay.replayed_length(no_change) == facts.replay.base_ns


def train(*, items: int, host: float, kernel: float, steps: int = 6) -> Facts:
    job = Builder()
    for _ in range(steps):
        with job.step():
            for layer in range(60):
                job.op("aten::mm", kernels=[("gemm", us(kernel))], host=us(host))
                if items and layer % (60 // items) == 0:
                    job.item()
    return Facts(job.timeline())


@pytest.mark.parametrize(
    ("host", "kernel"), [(20, 100), (20, 30), (60, 30), (100, 20)], ids=lambda value: f"{value}us"
)
@pytest.mark.parametrize("items", [1, 4])
def test_removed_waits_give_the_time_of_the_job_without_them(host, kernel, items):
    sick, cured = (train(items=n, host=host, kernel=kernel) for n in (items, 0))
    predicted = sick.replay.replayed_length(without=sick.replay.waits) / sick.step_count
    assert predicted / 1e9 == pytest.approx(cured.step_s, rel=0.05)


@pytest.mark.parametrize("kernel", [5, 40, 200])
def test_less_host_time_gives_the_time_of_the_faster_host(kernel):
    slow, fast = (train(items=2, host=host, kernel=kernel) for host in (95, 45))
    saved = slow.replay.reduce_host_time(slow.kernel_launching.dispatch_time, 0.5)
    predicted = slow.replay.replayed_length(saved) / slow.step_count
    assert predicted / 1e9 == pytest.approx(fast.step_s, rel=0.08)


def test_faster_kernels_give_the_time_of_the_faster_device():
    slow, fast = (train(items=1, host=20, kernel=kernel) for kernel in (200, 100))
    predicted = slow.replay.replayed_length(factor=np.full(len(slow.device), 0.5)) / slow.step_count
    assert predicted / 1e9 == pytest.approx(fast.step_s, rel=0.05)


def test_saving_time_never_lengthens_the_step():
    facts = train(items=3, host=30, kernel=40)
    runs = [
        facts.replay.replayed_length(facts.replay.reduce_host_time(facts.scope, ratio))
        for ratio in np.linspace(0, 1, 11)
    ]
    assert all(a >= b for a, b in pairwise(runs))


def test_nothing_recorded_is_no_error():
    job = Builder()
    with job.step():
        job.python("train.py(3): main", us(100))
    assert Facts(job.timeline()).replay.replayed_length() >= 0.0


def exchanging(kernel: float, transfer: float, *, host: float = 20, steps: int = 6) -> Facts:
    """Gradients travel beside the backward pass, and are waited for when it is over."""
    job = Builder(rank=0, world_size=2)
    for _ in range(steps):
        with job.step():
            for layer in range(16):
                job.op("aten::mm", kernels=[("gemm", us(kernel))], host=us(host))
                if layer in (7, 11, 15):
                    job.collective(us(transfer))
            job.join()
            job.optimizer([("multi_tensor_apply_kernel", us(50))])
            job.item()
    return Facts(job.timeline())


@pytest.mark.parametrize(
    ("kernel", "transfer"), [(400, 300), (400, 900), (400, 1_500), (400, 3_000), (100, 800)]
)
def test_work_beside_collectives_counts_and_no_longer_hides_what_it_does_not_cover(
    kernel, transfer
):
    """From all of the transfers but the last hidden, to none of the work left in the open."""
    slow, fast = (exchanging(each, transfer) for each in (kernel, kernel / 2))
    low, high = slow.scope.start[0], slow.scope.end[-1]
    assert slow.replay.base_ns == pytest.approx(high - low, rel=1e-3)
    factor = np.where(slow.host.collective, 1.0, 0.5)
    predicted = slow.replay.replayed_length(factor=factor) / slow.step_count
    assert predicted / 1e9 == pytest.approx(fast.step_s, rel=0.03)


def test_faster_collectives_give_the_time_of_the_faster_link():
    slow, fast = exchanging(400, 3_000), exchanging(400, 1_500)
    factor = np.where(slow.host.collective, 0.5, 1.0)
    assert slow.replay.replayed_length(factor=factor) / slow.step_count / 1e9 == pytest.approx(
        fast.step_s, rel=0.03
    )


def test_a_faster_host_beside_collectives_gives_the_time_of_the_faster_host():
    slow, fast = exchanging(30, 300, host=95), exchanging(30, 300, host=45)
    saved = slow.replay.reduce_host_time(slow.kernel_launching.dispatch_time, 0.5)
    predicted = slow.replay.replayed_length(saved) / slow.step_count
    assert predicted / 1e9 == pytest.approx(fast.step_s, rel=0.08)
