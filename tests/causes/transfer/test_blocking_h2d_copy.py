"""Copies that nothing overlaps are found; those beside compute are not."""

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def job(size: int = 100_000_000, *, wait: bool, stream: int = 7, count: int = 1) -> Builder:
    made = Builder()
    for _ in range(6):
        with made.step():
            made.loader(us(40), workers=4)
            for _ in range(count):
                made.copy("h2d", size // count, stream=stream, wait=wait)
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.optimizer([("multi_tensor_apply_kernel", us(100))])
    return made


def test_a_waited_for_copy_and_its_prefetched_twin():
    sick = job(wait=True)
    proof = judge("blocking-h2d-copy", sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, job(wait=False, stream=9)))
    assert covers(proof, twin_speedup(sick, job(wait=False)))


def test_pageable_copies_belong_to_their_own_cause():
    made = Builder()
    for _ in range(4):
        with made.step():
            made.copy("h2d", 50_000_000, pinned=False)
            made.op("aten::mm", kernels=[(GEMM, us(5_000))])
    assert judge("blocking-h2d-copy", made) is None
    assert judge("pageable-h2d-copy", made) is not None


PAIRS = {
    "blocking-h2d-copy": Pair(
        sick=lambda: job(wait=True), healthy=lambda: job(wait=False, stream=9)
    )
}
