"""Pageable copies are found, and pinning wins what the twin shows."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.analysis.device.copies import link_gbs
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def job(size: int, *, pinned: bool, stream: int = 7, layers: int = 20, **rates: float) -> Builder:
    made = Builder(**rates)
    for _ in range(6):
        with made.step():
            made.loader(us(40), workers=4)
            made.copy("h2d", size, pinned=pinned, stream=stream)
            for _ in range(layers):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.optimizer([("multi_tensor_apply_kernel", us(100))])
    return made


@pytest.mark.parametrize("size", [20_000_000, 60_000_000, 200_000_000])
def test_pinned_and_prefetched_twins_lie_in_the_predicted_interval(size):
    sick = job(size, pinned=False)
    proof = judge("pageable-h2d-copy", sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, job(size, pinned=True)))
    assert covers(proof, twin_speedup(sick, job(size, pinned=True, stream=9)))


def test_what_pinning_alone_wins_is_expected_as_measured():
    sick = job(60_000_000, pinned=False)
    proof = judge("pageable-h2d-copy", sick)
    assert proof is not None
    expected = 1 / (1 - proof.facts.without_overlap)
    assert twin_speedup(sick, job(60_000_000, pinned=True)) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("times", [3, 5, 8])
def test_pinning_does_not_make_a_slow_machine_one_of_its_class(times):
    rates = {"pageable_gbs": 0.1, "pinned_gbs": 0.1 * times}
    sick = job(600_000, pinned=False, **rates)
    proof = judge("pageable-h2d-copy", sick)
    assert proof is not None
    pinned = twin_speedup(sick, job(600_000, pinned=True, **rates))
    assert covers(proof, pinned)
    assert 1 / (1 - proof.facts.without_overlap) == pytest.approx(pinned, rel=0.15)


def test_a_few_bytes_are_not_worth_a_word():
    assert judge("pageable-h2d-copy", job(4_000, pinned=False)) is None


@pytest.mark.parametrize(
    ("name", "rate", "known"),
    [
        ("NVIDIA H100 80GB HBM3", 50.0, True),
        ("emulated NVIDIA A100-SXM4-80GB", 24.0, True),
        ("NVIDIA GeForce RTX 3080", 24.0, True),
        ("Tesla V100-SXM2-32GB", 12.0, True),
        ("NVIDIA L40S", 24.0, True),
        ("Tesla T4", 12.0, True),
        ("Something else", 12.0, False),
        (None, 12.0, False),
    ],
)
def test_link_class(name, rate, known):
    assert link_gbs(name) == (rate, known)


PAIRS = {
    "pageable-h2d-copy": Pair(
        sick=lambda: job(60_000_000, pinned=False), healthy=lambda: job(60_000_000, pinned=True)
    )
}
