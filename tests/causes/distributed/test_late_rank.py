"""A rank that is late without computing longer is named, with what holds it up."""

import pytest

from cured_twins import covers, judge_all
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet, Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
CAUSE = "late-rank"


def fleet(loading_us, steps=6) -> Fleet:
    made = Fleet(3)
    for step in range(steps):
        with made.step():
            for index, rank in enumerate(made.ranks):
                rank.sync()
                rank.loader(us(loading_us(step, index)))
                for _ in range(10):
                    rank.op("aten::mm", kernels=[(GEMM, us(300))])
            made.collective(us(300))
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return made


def test_a_slow_loader_on_one_rank():
    sick = fleet(lambda step, rank: 2500 if rank == 2 else 100).timelines()
    proof = judge_all(CAUSE, sick)
    assert proof.facts.rank == 2
    assert "loading data" in proof.headline
    assert proof.headline.startswith("Rank 2 makes the others wait 2.4 ms")
    assert judge_all("rank-workload-imbalance", sick) is None
    even = fleet(lambda step, rank: 100).timelines()
    assert covers(proof, Facts(sick[0]).step_s / Facts(even[0]).step_s)
    plan = catalog.load_fixes()["explain-late-rank"].decide(proof)
    assert plan.summary.endswith("whyidle explain rank2.json")


def test_delays_in_turns():
    sick = fleet(lambda step, rank: 2500 if step % 3 == rank else 100).timelines()
    proof = judge_all(CAUSE, sick)
    assert "take turns" in proof.headline
    assert "gc" in catalog.load_fixes()["explain-late-rank"].decide(proof).summary


@pytest.mark.parametrize(("first_us", "told"), [(1300, "Rank 2 makes"), (2500, "take turns")])
def test_a_rank_that_loads_longer_is_late_though_chance_makes_another_the_last(first_us, told):
    """In a third of the steps. It does not take turns where it spends more on the whole."""
    sick = fleet(
        lambda step, rank: (2500 if rank == 2 else 100) if step % 3 else (first_us, 100, 100)[rank],
        steps=12,
    ).timelines()
    assert told in judge_all(CAUSE, sick).headline


def test_loaders_that_are_equally_slow_make_nobody_wait():
    assert judge_all(CAUSE, fleet(lambda step, rank: 2500).timelines()) is None


def test_once_the_late_rank_is_in_time_transfers_are_hidden_again():
    def overlapping(pause: float) -> list:
        made = Fleet(4)
        for _ in range(6):
            with made.step():
                made.ranks[2].python("train.py(7): slow_thing", us(pause))
                for _ in range(4):
                    for rank in made.ranks:
                        for _ in range(8):
                            rank.op("aten::mm", kernels=[(GEMM, us(300))])
                    made.collective(us(1_500))
                made.join()
                for rank in made.ranks:
                    rank.item()
        return made.timelines()

    sick, well = overlapping(20_000), overlapping(10)
    proof = judge_all(CAUSE, sick)
    assert proof.facts.rank == 2
    assert covers(proof, Facts(sick[0]).step_s / Facts(well[0]).step_s)


PAIRS = {
    CAUSE: Pair(
        sick=lambda: fleet(lambda _, rank: 2500 if rank == 2 else 100),
        healthy=lambda: fleet(lambda *_: 2500),
    )
}
