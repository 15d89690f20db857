"""Stages that wait for each other, and kernels that only look like it."""

from dataclasses import replace

import pytest

from cured_twins import judge, judge_all
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "pipeline-bubbles"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def stage(wait: float, *, call: str = "recv", rank: int = 0) -> Builder:
    """A stage that computes eight micro-batches and receives before each."""
    job = Builder(rank=rank, world_size=2)
    for _ in range(6):
        with job.step():
            for batch in range(8):
                job.collective(us(wait if batch == 0 else 20), name=KERNEL, call=call)
                job.join()
                job.op("aten::mm", kernels=[(GEMM, us(400))])
    return job


def stages(*waits: float):
    """Two replicas of each stage."""
    made = [stage(waits[rank // 2], rank=rank).timeline() for rank in range(2 * len(waits))]
    return [
        replace(one, source=replace(one.source, path=f"trace_pp{rank // 2}_dp{rank % 2}.json"))
        for rank, one in enumerate(made)
    ]


def test_one_stage_says_that_it_is_one():
    proof = judge(CAUSE, stage(1_000))
    step = 8 * 400 + 1_000 + 7 * 20
    assert proof.high == pytest.approx((step - 8 * 400) / step, rel=0.1)
    assert "only one stage was recorded" in proof.headline


def test_waits_are_told_by_stage():
    proof = judge_all(CAUSE, stages(1_000, 900))
    shares = {item.quantity: item.value for item in proof.evidence}
    assert shares["stage 0, share of step"] > shares["stage 1, share of step"] > 0.1
    assert "only" not in proof.headline


def test_the_stage_that_waits_least_is_the_longest():
    proof = judge_all(CAUSE, stages(1_000, 20))
    assert "stage 1 waits only" in proof.headline
    assert proof.where[0].rank == 2


@pytest.mark.parametrize("call", ["all_to_allv", "broadcast"])
def test_other_calls_of_the_same_kernels_are_no_pipeline(call):
    assert judge(CAUSE, stage(1_000, call=call)) is None


def test_its_time_is_not_counted_twice():
    assert judge("exposed-gradient-comm", stage(1_000)) is None


PAIRS = {CAUSE: Pair(sick=lambda: stage(1_000), healthy=lambda: stage(20))}
