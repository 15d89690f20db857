"""A slow path is proven by sizes and the shortest of each collective over all ranks."""

from dataclasses import replace

from cured_twins import judge, judge_all
from whyidle import catalog
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Fleet, Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
CAUSE = "nccl-transport-fallback"


def fleet(gigabytes_per_s: float, *, late: int = 0, hosts=("a", "a"), elements=10_000_000):
    transfer = elements * 4 / gigabytes_per_s / 1e9 * 1e9  # two ranks: bus = algorithm bandwidth
    made = Fleet(2)
    for _ in range(6):
        with made.step():
            for index, rank in enumerate(made.ranks):
                rank.op("aten::mm", kernels=[(GEMM, us(5_000 + late * index))])
            made.collective(round(transfer), elements=elements)
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    named = zip(made.timelines(), hosts, strict=True)
    return [replace(timeline, hostname=host) for timeline, host in named]


def test_sockets_inside_one_machine():
    proof = judge_all(CAUSE, fleet(2.0))
    assert "2 GB/s" in proof.headline
    plan = catalog.load_fixes()["repair-transport"].decide(proof)
    assert "NCCL_DEBUG" in plan.summary


def test_a_proper_link_is_left_alone():
    assert judge_all(CAUSE, fleet(12.0)) is None


def test_between_machines_the_class_is_unknown():
    assert judge_all(CAUSE, fleet(2.0, hosts=("a", "b"))) is None


def test_small_messages_prove_nothing():
    assert judge_all(CAUSE, fleet(0.5, elements=100_000)) is None


def test_one_rank_proves_nothing():
    assert judge_all(CAUSE, fleet(2.0)[:1]) is None


def test_gloo_for_gpu_tensors():
    made = Builder(rank=0, world_size=2)
    for _ in range(4):
        with made.step():
            made.op("aten::mm", kernels=[(GEMM, us(3_000))])
            made.sync()
            with made.span("gloo:all_reduce"):
                made.quiet(us(2_000))
    for event in made.events:
        event["args"].pop("Collective name", None)
    made._header["distributedInfo"]["backend"] = "gloo"
    proof = judge(CAUSE, made)
    assert "Gloo" in proof.headline
    assert "NCCL" in catalog.load_fixes()["repair-transport"].decide(proof).summary


PAIRS = {CAUSE: Pair(sick=lambda: fleet(2.0), healthy=lambda: fleet(12.0, late=20_000))}
