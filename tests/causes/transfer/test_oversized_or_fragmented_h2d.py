"""Many small copies, and wide ones, against packed and narrow twins."""

import pytest
from judging import covers, judge, measured

from whyidle.testing.builder import Builder, us

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
IMAGES = [[64, 3, 224, 224], [64, 3, 224, 224]]


def job(count: int, size: int, *, type_: str = "float", dims=None, pinned: bool = True) -> Builder:
    made = Builder()
    for _ in range(6):
        with made.step():
            with made.span(
                "aten::copy_",
                "cpu_op",
                **{"Input Dims": dims or [[1000]] * 2, "Input type": [type_] * 2},
            ):
                for _ in range(count):
                    made.copy("h2d", size, pinned=pinned)
                    made.events.pop()  # the copy's own operator, which has no shapes
            for _ in range(10):
                made.op("aten::mm", kernels=[(GEMM, us(200))])
            made.sync()
    return made


def test_two_hundred_small_copies_and_one():
    sick = job(200, 8_000)
    proof = judge("oversized-or-fragmented-h2d", sick)
    assert proof is not None
    assert proof.facts["fragmented"]
    assert covers(proof, measured(sick, job(1, 200 * 8_000)))


def test_a_dozen_small_copies_are_usual():
    assert judge("oversized-or-fragmented-h2d", job(12, 8_000)) is None


@pytest.mark.parametrize(
    ("type_", "dims", "ratio"), [("double", None, 0.5), ("float", IMAGES, 0.25)]
)
def test_wide_batches_and_narrow_ones(type_, dims, ratio):
    sick = job(1, 100_000_000, type_=type_, dims=dims)
    proof = judge("oversized-or-fragmented-h2d", sick)
    assert proof is not None
    assert not proof.facts["fragmented"]
    assert covers(proof, measured(sick, job(1, int(100_000_000 * ratio))))
    assert proof.predicted.low == 1.0


def test_float_matrices_may_need_their_width():
    assert judge("oversized-or-fragmented-h2d", job(1, 100_000_000)) is None
