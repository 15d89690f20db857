"""Every nanosecond has one reason, and it is the one that the builder put there."""

from itertools import pairwise

import numpy as np
import pytest

from imagined_jobs import SICK, healthy
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import Builder, us

GEMM = ("ampere_sgemm_128x64_tn", us(1000))


def attribution(job: Builder) -> dict[str, float]:
    return Facts(job.timeline()).attribution


@pytest.mark.parametrize("job", [*SICK.values(), healthy], ids=[*SICK, "healthy"])
def test_shares_sum_to_one_and_never_overlap(job):
    facts = Facts(job().timeline())
    assert sum(facts.attribution.values()) == pytest.approx(1.0, abs=1e-9)
    for step in facts.per_step():
        assert sum(step.values()) == pytest.approx(1.0, abs=1e-9)
    low, high = facts.steps.window
    edges = sorted(
        (int(s), int(e))
        for part in facts.partition.parts.values()
        for s, e in zip(part.start, part.end, strict=True)
    )
    assert edges[0][0] == low
    assert edges[-1][1] == high
    assert all(a[1] == b[0] for a, b in pairwise(edges))


def steps(job: Builder, count: int = 5):
    for _ in range(count):
        with job.step():
            yield


def test_loader_time_is_input():
    job = Builder()
    for _ in steps(job):
        job.loader(us(4000))
        job.op("aten::mm", kernels=[GEMM])
        job.sync()
    found = attribution(job)
    assert found["input"] == pytest.approx(4000 / 5030, abs=0.02)
    assert found["compute"] == pytest.approx(1000 / 5030, abs=0.02)


def test_loader_time_behind_a_full_queue_is_not_input():
    job = Builder()
    for _ in steps(job, 8):
        for _ in range(5):
            job.op("aten::mm", kernels=[GEMM])
        job.loader(us(3000))
    assert attribution(job)["input"] < 0.02


def test_only_the_refill_that_was_blocked_is_sync():
    job = Builder()
    for _ in steps(job):
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(500))])
        job.sync()
        job.python("train.py(9): metrics", us(300))
    found = attribution(job)
    assert found["sync"] == pytest.approx(300 / 830, abs=0.05)


def test_a_sync_on_an_idle_device_costs_nothing():
    job = Builder()
    for _ in steps(job):
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(5))])
        job.python("train.py(9): metrics", us(400))
        job.sync()
        job.python("train.py(10): more", us(400))
    found = attribution(job)
    assert found["sync"] < 0.02
    assert found["host"] > 0.9


def test_pageable_copies_are_transfer():
    job = Builder()
    for _ in steps(job):
        job.copy("h2d", 60_000_000, pinned=False)
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(5000))])
    assert attribution(job)["transfer"] == pytest.approx(10 / 15, abs=0.03)


def test_copies_beside_kernels_are_hidden():
    job = Builder()
    for _ in steps(job):
        job.copy("h2d", 25_000_000, pinned=True, stream=9)
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(5000))])
    assert attribution(job)["transfer"] < 0.05


def test_hidden_collectives_are_not_communication():
    job = Builder(rank=0, world_size=2)
    for _ in steps(job):
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(2000))])
        job.collective(us(1500))
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(2000))])
        job.join()
    assert attribution(job)["communication"] < 0.02


def test_a_spinning_collective_is_not_useful_work():
    job = Builder(rank=0, world_size=2)
    for _ in steps(job):
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(1000))])
        job.collective(us(3000))
        job.join()
    found = attribution(job)
    assert found["communication"] == pytest.approx(0.75, abs=0.03)
    assert found["compute"] == pytest.approx(0.25, abs=0.03)


def test_silence_is_unknown_not_a_guess():
    job = Builder()
    for _ in steps(job):
        job.op("aten::mm", kernels=[GEMM])
        job.sync()
        job.quiet(us(9000))
    found = attribution(job)
    assert found["unknown"] > 0.75


def test_waiting_for_work_that_is_not_there_is_unknown():
    """A file from which a splitter removed kernels: the host waits, the device shows nothing."""
    job = Builder()
    for _ in steps(job):
        job.op("aten::mm", kernels=[GEMM])
        job.runtime("cudaDeviceSynchronize", us(20_000))
    found = Facts(job.timeline()).reasons
    assert found["contradiction"] > 0.8
    assert found["sync_refill"] < 0.1


def test_allocator_time_is_an_interruption():
    job = Builder()
    for _ in steps(job):
        job.op("aten::mm", kernels=[GEMM])
        job.sync("cudaDeviceSynchronize")
        job.runtime("cudaFree", us(700))
        job.runtime("cudaMalloc", us(800))
    assert attribution(job)["interruption"] == pytest.approx(1500 / 2530, abs=0.05)


@pytest.mark.parametrize("call", ["cudaMalloc", "cudaHostAlloc", "cudaFree"])
def test_the_first_long_allocation_creates_the_context(call):
    job = Builder()
    with job.step():
        job.runtime(call, us(300_000))
        job.op("aten::mm", kernels=[GEMM])
        job.sync()
    reasons = Facts(job.timeline()).reasons
    assert reasons["compile"] > 0.9
    assert reasons["allocator"] == 0.0


@pytest.mark.parametrize(("call", "theirs"), [("cudaFree", True), ("cudaMalloc", False)])
def test_after_memory_was_given_back_the_queue_is_to_be_refilled(call, theirs):
    """Giving back waits for the device, getting some does not."""
    job = Builder()
    for _ in steps(job):
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(3000))])
        if theirs:
            job.sync(call)
        else:
            job.now += us(3000)
            job.runtime(call, us(5))
        for _ in range(10):
            job.op("aten::relu", kernels=[("elementwise_kernel", us(20))], host=us(100))
    found = Facts(job.timeline()).reasons
    share = 800 / 4100
    assert found["allocator"] == pytest.approx(share if theirs else 0.0, abs=0.03)
    left = found["launch"] + found["python"]
    assert left == pytest.approx(0.0 if theirs else share, abs=0.05)


def test_the_input_is_left_untouched():
    timeline = healthy().timeline()
    before = timeline.device.start.copy(), timeline.host.end.copy()
    assert Facts(timeline).attribution
    assert np.array_equal(before[0], timeline.device.start)
    assert np.array_equal(before[1], timeline.host.end)


def test_several_devices_of_one_process_count_alike():
    """A process that keeps one of two devices busy leaves half of what it holds idle."""
    job = Builder()
    for _ in steps(job):
        for _ in range(4):
            job.op("aten::mm", kernels=[GEMM])
        job.launch("ampere_sgemm_128x64_tn", us(1000), stream=8, device=1)
        job.sync("cudaDeviceSynchronize")
    facts = Facts(job.timeline())
    assert facts.devices == (0, 1)
    assert facts.attribution["compute"] == pytest.approx((1.0 + 0.25) / 2, abs=0.03)
    assert sum(facts.attribution.values()) == pytest.approx(1.0, abs=1e-9)


def one_by_one(between: str) -> Builder:
    """Gradients exchanged one after the other, each after a kernel that the host launches late."""
    job = Builder(rank=0, world_size=2)
    for _ in steps(job):
        job.op("aten::mm", kernels=[GEMM])
        for _ in range(10):
            job.quiet(us(150))
            job.op("aten::clone", kernels=[(between, us(3))])
            job.collective(us(20))
            job.join()
        job.sync()
    return job


def test_gaps_between_collectives_and_their_staging_copies_are_communication():
    staged = attribution(one_by_one("direct_copy_kernel_cuda"))
    worked = attribution(one_by_one("vectorized_elementwise_kernel"))
    assert staged["host"] < 0.1
    assert worked["host"] > 0.2
    moved = worked["host"] - staged["host"]
    assert staged["communication"] == pytest.approx(worked["communication"] + moved, abs=0.01)
