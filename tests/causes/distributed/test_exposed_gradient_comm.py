"""Communication that holds up work is found; hidden, harmless or waiting for others is not it."""

from dataclasses import replace

import pytest

from cured_twins import covers, judge, judge_all, twin_speedup
from whyidle import catalog
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Fleet, Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
CAUSE = "exposed-gradient-comm"


def ddp(transfer: float, *, buckets: int = 4, overlap: bool = False, elements: int = 0) -> Builder:
    """Layers forward and backward; gradients travel after the backward pass, or beside it."""
    job = Builder(rank=0, world_size=2)
    size = elements or 50_000_000 // buckets
    for _ in range(6):
        with job.step():
            for _ in range(8):
                job.op("aten::mm", kernels=[(GEMM, us(500))])
            for _ in range(buckets):
                for _ in range(16 // buckets):
                    job.op("aten::mm_backward", kernels=[(GEMM, us(500))])
                if overlap:
                    job.collective(us(transfer / buckets), elements=size)
            if not overlap:
                for _ in range(buckets):
                    job.collective(us(transfer / buckets), elements=size)
            job.join()
            job.optimizer([("multi_tensor_apply_kernel", us(50))])
    return job


@pytest.mark.parametrize("transfer", [1_500, 4_000])
def test_what_overlapping_wins_is_what_the_twin_shows(transfer):
    sick = ddp(transfer)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, ddp(transfer, overlap=True)))


@pytest.mark.parametrize(
    ("buckets", "told"), [(1, "1 collective per step"), (4, "4 collectives per step")]
)
def test_the_headline_counts_the_collectives(buckets, told):
    headline = judge(CAUSE, ddp(4_000, buckets=buckets)).headline
    verb, whose = ("costs", "its") if buckets == 1 else ("cost", "their")
    assert headline.startswith(f"{told} (all-reduce) {verb} ")
    assert headline.endswith(f"none of {whose} time overlaps with computation")


def test_hidden_collectives_are_no_finding():
    proof = judge(CAUSE, ddp(1_500, overlap=True))
    assert proof is None or proof.high < 0.05


def test_a_host_that_is_late_as_well_loses_nothing():
    """The collective runs in the open, but the next kernel is not even launched."""
    job = Builder(rank=0, world_size=2)
    for _ in range(6):
        with job.step():
            job.op("aten::mm", kernels=[(GEMM, us(500))])
            job.collective(us(400))
            job.quiet(us(900))
            job.join()
            job.op("aten::mm", kernels=[(GEMM, us(500))])
            job.sync()
    assert judge(CAUSE, job) is None


def test_one_rank_says_that_waiting_is_included():
    proof = judge(CAUSE, ddp(4_000))
    assert "including waits for other ranks" in proof.headline
    assert proof.low < 0.5 * proof.high


def fleet(late: int) -> Fleet:
    made = Fleet(2)
    for _ in range(6):
        with made.step():
            for index, rank in enumerate(made.ranks):
                for _ in range(10):
                    rank.op("aten::mm", kernels=[(GEMM, us(400 + late * index))])
            made.collective(us(500), elements=20_000_000)
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return made


def test_several_ranks_tell_transfer_from_waiting():
    proof = judge_all(CAUSE, fleet(late=100).timelines())
    assert "waiting" not in proof.headline
    step = 10 * 500 + 500 + 50
    assert proof.high == pytest.approx(500 / step, rel=0.1)
    told = {item.quantity: item.value for item in proof.evidence}
    assert told["of it, waiting for late ranks"] == pytest.approx(500 / step, rel=0.1)
    assert told["mean size of a collective"] == 80_000_000


def treat(name: str, proof):
    return catalog.load_fixes()[name].decide(proof)


def test_many_small_collectives_are_put_in_buckets():
    sick = judge(CAUSE, ddp(4_000, buckets=16, elements=20_000))
    assert treat("gradient-compression", sick) is None
    job = Builder(rank=0, world_size=2)
    for _ in range(4):
        with job.step():
            job.op("aten::mm", kernels=[(GEMM, us(2_000))])
            for _ in range(100):
                job.collective(us(20), elements=20_000)
            job.join()
    plan = treat("larger-buckets", judge(CAUSE, job))
    assert "100 single all-reduces" in plan.summary


def test_large_collectives_can_be_compressed():
    proof = judge(CAUSE, ddp(4_000))
    assert treat("larger-buckets", proof) is None
    plan = treat("gradient-compression", proof)
    twin = twin_speedup(ddp(4_000), ddp(2_000))
    assert plan.predicted.low <= twin <= plan.predicted.high * 1.02


def test_ranks_on_cpus_compress_to_float16_and_others_may_send_less():
    proof = judge(CAUSE, ddp(4_000))
    on_cpu = replace(proof, facts=replace(proof.facts, on_cpu=True))
    for case, value in ((proof, "bf16_compress"), (on_cpu, "fp16_compress")):
        assert treat("gradient-compression", case).edits[0].value == value


def gathering(times: int = 2) -> Builder:
    """Two passes of sharded layers: parameters are gathered, and gradients scattered."""
    job = Builder(rank=0, world_size=2)
    for _ in range(6):
        with job.step():
            for number in range(2):
                if number < times:
                    job.collective(us(800), call="_allgather_base", elements=10_000_000)
                    job.join()
                job.op("aten::mm", kernels=[(GEMM, us(2_000))])
            job.collective(us(800), call="_reduce_scatter_base", elements=10_000_000)
            job.join()
            job.optimizer([("multi_tensor_apply_kernel", us(50))])
    return job


def test_parameters_are_gathered_once():
    proof = judge(CAUSE, gathering())
    plan = treat("fsdp-keep-gathered", proof)
    assert covers(replace(proof, predicted=plan.predicted), twin_speedup(gathering(), gathering(1)))
    assert treat("fsdp-keep-gathered", judge(CAUSE, ddp(4_000))) is None
    assert "within a node" not in treat("overlap-exchange", proof).summary
    several = replace(proof, facts=replace(proof.facts, nodes=2))
    assert "shard within a node" in treat("overlap-exchange", several).summary


def test_exchanges_of_embeddings_are_pipelined_not_compressed():
    job = Builder(rank=0, world_size=2)
    for _ in range(4):
        with job.step():
            job.op("aten::mm", kernels=[(GEMM, us(2_000))])
            job.collective(us(900), name="ncclDevKernel_SendRecv(ncclDevKernelArgs)")
            job.join()
    for event in job.events:
        if event["args"].get("Collective name"):
            event["args"]["Collective name"] = "all_to_allv"
    proof = judge(CAUSE, job)
    assert "all-to-all" in proof.headline
    assert "embeddings" in treat("overlap-exchange", proof).summary
    assert treat("gradient-compression", proof) is None


def test_the_last_bucket_of_gradients_cannot_be_hidden():
    """Three of four buckets travel beside the backward pass, as well as may be."""
    proof = judge(CAUSE, ddp(6_000, overlap=True, elements=6_000_000))
    assert proof is None or proof.predicted.speedup < 1.03


def test_a_single_exchange_after_the_backward_pass_is_to_be_overlapped():
    sick = ddp(4_000, buckets=1, elements=40_000_000)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert catalog.load_fixes()["overlap-exchange"].decide(proof) is not None
    assert covers(proof, twin_speedup(sick, ddp(4_000, buckets=8, overlap=True)))


def test_where_every_bucket_is_hidden_but_the_last_there_is_nothing_to_overlap():
    proof = judge(CAUSE, ddp(12_000, overlap=True))
    assert proof is None or catalog.load_fixes()["overlap-exchange"].decide(proof) is None


PAIRS = {CAUSE: Pair(sick=lambda: ddp(4_000), healthy=lambda: ddp(1_000, overlap=True))}
