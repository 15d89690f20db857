"""Many small copies, and wide ones, against packed and narrow twins."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

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
    assert proof.facts.fragmented
    packed = twin_speedup(sick, job(1, 200 * 8_000))
    assert covers(proof, packed)
    # its bytes travel at the rate of an unknown board, half of the twin's
    assert proof.predicted.speedup == pytest.approx(packed, rel=0.12)


def test_no_more_is_promised_than_the_host_keeps_up_with():
    """The device is 200 ms behind; its 40 copies take 6.5 of 8.5 ms, the host 5 ms beside them."""
    made = Builder(pinned_gbs=0.05)
    made.behind(us(200_000))
    for _ in range(6):
        with made.step():
            for _ in range(40):
                made.copy("h2d", 8_000, pinned=True)
            made.quiet(us(5_000))
            for _ in range(10):
                made.op("aten::mm", kernels=[(GEMM, us(200))])
    proof = judge("oversized-or-fragmented-h2d", made)
    assert proof.predicted.speedup == pytest.approx(8.5 / 5.1, rel=0.05)
    assert proof.predicted.high > 3.0


@pytest.mark.parametrize(
    ("type_", "dims", "ratio"), [("double", None, 0.5), ("float", IMAGES, 0.25)]
)
def test_wide_batches_and_narrow_ones(type_, dims, ratio):
    sick = job(1, 100_000_000, type_=type_, dims=dims)
    proof = judge("oversized-or-fragmented-h2d", sick)
    assert proof is not None
    assert not proof.facts.fragmented
    assert covers(proof, twin_speedup(sick, job(1, int(100_000_000 * ratio))))
    assert proof.predicted.low == 1.0


def converting(size: int, *, read: str, written: str = "float", shape: int = 1000) -> Builder:
    """Batches that the device converts; nothing is left of that where they come as ``written``."""
    made = Builder()
    for _ in range(6):
        with made.step():
            with made.span(
                "aten::copy_", "cpu_op", **{"Input Dims": [[1000]] * 2, "Input type": [read] * 2}
            ):
                made.copy("h2d", size)
                made.events.pop()
            if read != "float":
                made.op(
                    "aten::copy_",
                    kernels=[("direct_copy_kernel_cuda", us(600))],
                    dims=[[shape]] * 2,
                    types=[written, read],
                )
            made.op("aten::mm", kernels=[(GEMM, us(2000))])
            made.sync()
    return made


def test_what_is_sent_as_it_is_used_is_not_converted():
    sick = converting(100_000_000, read="double")
    proof = judge("oversized-or-fragmented-h2d", sick)
    assert proof is not None
    narrow = twin_speedup(sick, converting(50_000_000, read="float"))
    assert covers(proof, narrow)
    assert proof.predicted.speedup == pytest.approx(narrow, rel=0.03)


@pytest.mark.parametrize("other", [{"written": "double"}, {"shape": 999}])
def test_copies_on_the_device_that_convert_nothing_of_it_stay(other):
    proofs = [
        judge("oversized-or-fragmented-h2d", converting(100_000_000, read="double", **more))
        for more in ({}, other)
    ]
    assert proofs[0] is not None
    assert proofs[1] is not None
    assert proofs[1].predicted.speedup < proofs[0].predicted.speedup


def test_float_matrices_may_need_their_width():
    assert judge("oversized-or-fragmented-h2d", job(1, 100_000_000)) is None


PAIRS = {
    "oversized-or-fragmented-h2d": Pair(
        sick=lambda: job(200, 8_000), healthy=lambda: job(12, 8_000)
    )
}
