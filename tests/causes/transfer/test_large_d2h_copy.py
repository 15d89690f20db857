"""Outputs read back in every step are named; scalars, checkpoints and fallbacks are not these."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import PAGEABLE_GBS, Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
CAUSE = "large-d2h-copy"


def job(size: int, *, stream: int = 7, pinned: bool = False, save: bool = False) -> Builder:
    made = Builder()
    for _ in range(6):
        with made.step():
            for _ in range(30):
                made.op("aten::mm", kernels=[(GEMM, us(400))])
            if save:
                with made.span("train.py(80): save_checkpoint", "python_function"):
                    made.copy("d2h", size, pinned=False)
            elif size:
                made.copy("d2h", size, pinned=pinned, stream=stream)
            made.optimizer([("multi_tensor_apply_kernel", us(200))])
    return made


def test_outputs_read_back_in_every_step():
    sick = job(60_000_000)
    proof = judge(CAUSE, sick)
    assert proof is not None
    assert "60 MB per step" in proof.headline
    for better in (job(0), job(6_000_000), job(60_000_000, pinned=True)):
        assert covers(proof, twin_speedup(sick, better))


@pytest.mark.parametrize("copies", [1, 3])
def test_a_program_without_steps_and_operators(copies):
    made = Builder()
    for _ in range(copies):
        for _ in range(30):
            made.launch("some_kernel", us(300))
        made.copy("d2h", 60_000_000, pinned=False)
    made.events = [event for event in made.events if event["cat"] != "cpu_op"]
    proof = judge(CAUSE, made)
    assert (proof is not None) == (copies > 1)
    assert proof is None or "reads 180 MB back" in proof.headline


@pytest.mark.parametrize("copied_first", [True, False])
def test_a_recording_may_begin_within_the_wait(copied_first):
    sick = Builder()
    if copied_first:
        sick.behind(us(9_000))
    for _ in range(3):
        if copied_first:
            sick.copy("d2h", 60_000_000, pinned=False)
        for _ in range(30):
            sick.op("aten::mm", kernels=[(GEMM, us(400))])
        if not copied_first:
            sick.copy("d2h", 60_000_000, pinned=False)
        sick.optimizer([("multi_tensor_apply_kernel", us(200))])
    proof = judge(CAUSE, sick)
    assert proof is not None
    computing, copying = 30 * us(400) + us(200), 60_000_000 / PAGEABLE_GBS
    best = (computing + copying) / computing
    assert proof.predicted.high == pytest.approx(best, rel=0.05)


def test_near_misses():
    assert judge(CAUSE, job(4)) is None  # a scalar
    assert judge(CAUSE, job(60_000_000, save=True)) is None
    assert judge(CAUSE, job(60_000_000, stream=9, pinned=True)) is None  # beside compute


PAIRS = {CAUSE: Pair(sick=lambda: job(60_000_000), healthy=lambda: job(60_000_000, save=True))}
