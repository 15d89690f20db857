"""A link at a fraction of its class is found; pageable and shared ones are not."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def job(*, pinned: bool = True, **rates: float) -> Builder:
    made = Builder(**rates)
    for _ in range(5):
        with made.step():
            made.copy("h2d", 20_000_000, pinned=pinned)
            for _ in range(10):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
    return made


def test_one_lane_of_sixteen():
    healthy, sick = job(), job(pinned_gbs=1.6)
    proof = judge("pcie-or-nvlink-degraded", sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, healthy))


@pytest.mark.parametrize("rate", [25.0, 12.0, 7.0])
def test_shared_switches_and_traffic_explain_less(rate):
    assert judge("pcie-or-nvlink-degraded", job(pinned_gbs=rate)) is None


def test_pageable_copies_tell_nothing_of_the_link():
    assert judge("pcie-or-nvlink-degraded", job(pinned=False, pageable_gbs=1.0)) is None


PAIRS = {
    "pcie-or-nvlink-degraded": Pair(
        sick=lambda: job(pinned_gbs=1.6), healthy=lambda: job(pinned_gbs=7.0)
    )
}
