import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "gaps-between-graphs"
LAYER = [("fused_moe_kernel", us(40)), ("nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT", us(10))]


def decode(host: float, *, ahead: bool = False, mark: str = "step[DECODE bs=16]") -> Builder:
    """Steps of one graph, before which the CPU prepares for ``host`` us; ``ahead``: without waiting
    for the step before."""
    job = Builder()
    for _ in range(6):
        with job.span(mark):
            job.op("aten::cumsum", host=us(host))
            job.copy("h2d", 4_000)
            job.graph(LAYER * 40)
            if not ahead:
                job.sync()
    return job


def test_the_gap_and_what_fills_it_are_named():
    proof = judge(CAUSE, decode(600))
    assert proof
    assert "next decoding step" in proof.headline
    assert "aten::cumsum" in str(proof.evidence)


@pytest.mark.parametrize("host", [300, 600, 1500])
def test_the_prediction_covers_the_twin_that_works_ahead(host):
    sick = decode(host)
    proof = judge(CAUSE, sick)
    assert proof
    assert covers(proof, twin_speedup(sick, decode(host, ahead=True)))


@pytest.mark.parametrize("mark", ["execute_context_0(0)_generation_16(16)", "train_step"])
def test_any_loop_of_graphs_has_it(mark):
    assert judge(CAUSE, decode(600, mark=mark))


def test_kernels_that_are_launched_one_by_one_are_another_cause():
    job = Builder()
    for _ in range(6):
        with job.step():
            for name, length in LAYER * 20:
                job.op("aten::mm", kernels=[(name, length)], host=us(80))
            job.sync()
    assert judge(CAUSE, job) is None
    assert judge("launch-bound-small-kernels", job)
    assert judge("launch-bound-small-kernels", decode(600)) is None


PAIRS = {CAUSE: Pair(sick=lambda: decode(600), healthy=lambda: decode(600, ahead=True))}
