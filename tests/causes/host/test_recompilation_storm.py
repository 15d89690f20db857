import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle import catalog
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "recompilation-storm"
COMPILE = "torch/_dynamo/convert_frame.py(1000): _compile"


def train(compiles: set[int], *, name: str = COMPILE) -> Builder:
    job = Builder()
    for step in range(8):
        with job.step():
            if step in compiles:
                job.python(name, us(4000))
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(500))], host=us(10))
            job.sync()
    return job


@pytest.mark.parametrize("name", [COMPILE, "_compile.compile_inner (dynamo_timed)"])
def test_the_prediction_covers_the_twin_without_compiling(name):
    sick = train({2, 4, 6}, name=name)
    proof = judge(CAUSE, sick)
    assert proof
    assert "3 of" in proof.headline
    assert covers(proof, twin_speedup(sick, train(set())))
    once = catalog.load_fixes()["mark-dynamic"].decide(proof).predicted
    assert once.speedup == pytest.approx(twin_speedup(sick, train(set())), rel=0.03)


PAIRS = {CAUSE: Pair(sick=lambda: train({2, 4, 6}), healthy=lambda: train({3}))}
