"""How much communication holds up work, and what of it one rank alone can know to be waiting."""

import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.exposed_communication import unsteady_share
from whyidle.analysis.ranks.job import Job
from whyidle.testing.builder import Builder, us

GEMM = "ampere_sgemm_128x64_tn"


def job(lengths_us, *, ahead: bool = True) -> Facts:
    """A step per length; with ``ahead`` the next kernel is queued behind the collective."""
    made = Builder(rank=0, world_size=2)
    for length in lengths_us:
        with made.step():
            made.op("aten::mm", kernels=[(GEMM, us(1_000))])
            made.collective(us(length))
            if not ahead:
                made.sync()
                made.quiet(us(50))
            made.join()
            made.op("aten::mm", kernels=[(GEMM, us(1_000))])
    return Facts(made.timeline())


def test_a_queued_kernel_is_held_up_for_the_whole_collective():
    facts = job([400] * 5)
    assert facts.held_up.total == pytest.approx(5 * us(400), rel=0.02)
    seen = Job((facts,)).exposure
    assert seen.held == pytest.approx(400 / 2_400, rel=0.05)
    assert seen.hidden_ratio == pytest.approx(0.0, abs=0.01)


def test_a_host_that_waits_first_and_launches_then_is_not_held_up():
    facts = job([400] * 5, ahead=False)
    assert facts.bucket_share("collective") > 0.1
    assert facts.held_up.total < 5 * us(40)


def test_what_is_not_in_every_step_is_waiting():
    assert unsteady_share(job([400] * 5)) == pytest.approx(0.0, abs=0.01)
    assert unsteady_share(job([400, 1_000, 400, 400, 400])) == pytest.approx(600 / 2_600, rel=0.02)


def test_steps_that_differ_tell_nothing():
    made = Builder(rank=0, world_size=2)
    for count in (1, 2, 3, 2):
        with made.step():
            made.op("aten::mm", kernels=[(GEMM, us(1_000))])
            for _ in range(count):
                made.collective(us(200 * count))
            made.join()
    assert unsteady_share(Facts(made.timeline())) == 0.0


def test_one_rank_does_not_claim_to_know():
    seen = Job((job([400] * 5),)).exposure
    assert not seen.is_waiting_known
    assert seen.waiting == 0.0
    assert seen.transfer == seen.held


def test_without_collectives_there_is_nothing():
    made = Builder()
    with made.step():
        made.op("aten::mm", kernels=[(GEMM, us(1_000))])
    assert Job((Facts(made.timeline()),)).exposure is None
