"""Workers that do not keep up are told from hand-off and from a start."""

import numpy as np
import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.causes.input.dataloader_too_few_workers import round_length
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def job(waits: list[float]) -> Builder:
    """Ten milliseconds of compute per step, behind the given waits (us) for workers."""
    made = Builder()
    for wait in waits:
        with made.step():
            made.loader(us(wait), workers=2)
            made.copy("h2d", 1_000_000)
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
    return made


def saw_tooth(workers: int, making: float, steps: int = 13) -> Builder:
    """Each worker takes ``making`` us for a batch, so one wait per round covers the shortage."""
    wait = max(making - workers * 10_000, 40)
    return job([wait if i % workers == 0 else 40 for i in range(steps)])


def test_a_saw_tooth_tells_the_workers_and_more_of_them_help_as_predicted():
    proof = judge("dataloader-too-few-workers", saw_tooth(3, 42_000))
    assert proof is not None
    assert proof.facts.was == 3
    assert proof.facts.workers >= 4
    for workers in (4, 5, 6):
        assert covers(proof, twin_speedup(saw_tooth(3, 42_000), saw_tooth(workers, 42_000)))


def test_waits_in_every_step_without_a_rhythm_do_not_tell_the_workers():
    proof = judge("dataloader-too-few-workers", job([5_000, 6_000, 4_000, 7_000, 5_500, 4_500]))
    assert proof is not None
    assert proof.facts.workers is None
    assert covers(proof, twin_speedup(job([5_000] * 6), job([40] * 6)), slack=0.05)


def big(waits: list[float]) -> Builder:
    """Batches of 19 MB, whose hand-off alone takes milliseconds."""
    made = Builder()
    for wait in waits:
        with made.step():
            made.loader(us(wait), workers=2)
            made.copy("h2d", 19_000_000)
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
    return made


def test_waits_beside_slow_hand_offs_of_large_batches():
    assert judge("dataloader-too-few-workers", big([4_300] * 8)) is None  # the hand-off alone
    assert judge("dataloader-too-few-workers", big([8_000] * 8)) is None  # as slow as any seen
    sick = big([4_300, 4_300, 4_300, 19_000] * 3)
    proof = judge("dataloader-too-few-workers", sick)
    assert proof is not None
    assert covers(proof, twin_speedup(sick, big([4_300] * 12)))


def test_a_loader_that_the_host_reaches_steps_ahead_of_the_device():
    def training(making: float) -> Builder:
        made, ready = Builder(), 0
        for step in range(16):
            with made.step():
                ready = max(ready, made.now) + us(making) if step else made.now
                made.loader(max(ready - made.now, us(60)), workers=2)
                for _ in range(20):
                    made.op("aten::mm", kernels=[(GEMM, us(500))])
        return made

    proof = judge("dataloader-too-few-workers", training(18_000))
    assert proof is not None
    assert covers(proof, twin_speedup(training(18_000), training(100)))


@pytest.mark.parametrize(
    "waits",
    [[40] * 6, [250] * 6, [40, 40, 30_000, 40, 40, 40]],
    ids=["ready batches", "slow hand-off", "one late start"],
)
def test_near_misses(waits):
    assert judge("dataloader-too-few-workers", job(waits)) is None


@pytest.mark.parametrize(
    ("waits", "period"),
    [
        ([9, 0, 0, 9, 0, 0, 9], 3),
        ([9, 0, 0, 9, 0, 0], None),
        ([9, 0, 9, 0, 0, 9], None),
        ([9, 9, 9, 9], None),
        ([0, 0, 0], None),
    ],
)
def test_round_length(waits, period):
    assert round_length(np.array(waits, dtype=float)) == period


PAIRS = {
    "dataloader-too-few-workers": Pair(
        sick=lambda: saw_tooth(3, 42_000), healthy=lambda: big([4_300] * 8)
    )
}
