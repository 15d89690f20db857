"""Unequal work is laid to the rank that computes longer, not to the ones that wait."""

import pytest

from cured_twins import covers, judge_all
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet, Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
CAUSE = "rank-workload-imbalance"


def fleet(work_us, count: int = 4, *, steps: int = 6, **options):
    """``work_us(step, rank)`` of compute in ten kernels, whose grids follow the work."""
    made = Fleet(count, **options)
    for step in range(steps):
        with made.step():
            for index, rank in enumerate(made.ranks):
                for _ in range(10):
                    with rank.span("aten::mm", "cpu_op"):
                        rank.quiet(us(6))
                        blocks = {"blocks per SM": work_us(step, index) / 500}
                        rank.launch(GEMM, us(work_us(step, index) / 10), **blocks)
            made.collective(us(300))
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return made


def step_s(made: Fleet) -> float:
    return Facts(made.timelines()[0]).step_s


def test_a_constant_late_rank_and_its_even_twin():
    clocks = (0, 9_000, -4_000, 0)
    sick = fleet(lambda step, rank: 5000 if rank == 2 else 3000, offsets_ns=clocks)
    proof = judge_all(CAUSE, sick.timelines())
    assert proof.facts.rank == 2
    assert proof.headline.startswith("Rank 2 computes 2 ms longer")
    assert proof.where[0].rank == 2
    even = fleet(lambda step, rank: 3500)
    assert covers(proof, step_s(sick) / step_s(even))
    plan = catalog.load_fixes()["balance-by-length"].decide(proof)
    assert "rank 2" in plan.summary
    assert "pipeline" not in plan.summary  # every rank has the whole model


def test_turns_follow_the_data():
    lengths = [[5, 3, 3, 3], [3, 5, 3, 3], [3, 3, 3, 5], [3, 3, 5, 3], [5, 3, 3, 3], [3, 5, 3, 3]]
    sick = fleet(lambda step, rank: 1000 * lengths[step][rank])
    proof = judge_all(CAUSE, sick.timelines())
    assert "take turns" in proof.headline
    assert covers(proof, step_s(sick) / step_s(fleet(lambda step, rank: 3500)))
    assert "length" in catalog.load_fixes()["balance-by-length"].decide(proof).summary


def test_even_ranks_are_left_alone():
    assert judge_all(CAUSE, fleet(lambda step, rank: 3000 + rank).timelines()) is None


def test_one_rank_cannot_tell():
    assert judge_all(CAUSE, fleet(lambda step, rank: 3000).timelines()[:1]) is None


def test_the_verdict_names_the_late_rank_and_not_the_waiting_ones():
    sick = fleet(lambda step, rank: 5000 if rank == 1 else 3000, 3)
    diagnosis = diagnose_job(sick.timelines()[::-1])
    assert diagnosis.verdict.bound == "communication"
    assert diagnosis.findings[0].cause == CAUSE
    assert diagnosis.findings[0].where[0].rank == 1
    rows = diagnosis.detail.ranks
    assert [row.rank for row in rows] == [0, 1, 2]
    assert rows[1].lateness_s == pytest.approx(2e-3, rel=0.05)
    assert rows[1].last_ratio == 1.0
    assert rows[1].waiting == 0.0 < rows[0].waiting
    assert diagnosis.coverage.clock_error_s < 1e-4


def test_more_work_is_not_a_slow_device():
    sick = fleet(lambda step, rank: 4000 if rank == 1 else 3000).timelines()
    assert judge_all("fail-slow-device", sick) is None
    assert judge_all(CAUSE, sick) is not None


PAIRS = {
    CAUSE: Pair(
        sick=lambda: fleet(lambda _, rank: 5000 if rank == 2 else 3000),
        healthy=lambda: fleet(lambda _, rank: 3000 + rank),
    )
}
