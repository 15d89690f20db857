"""A cold start is told from compiling that recurs."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cured_twins import covers, judge
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.process_facts import LifePhases
from whyidle.model.timeline import DeviceInfo
from whyidle.readers import kineto
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
COMPILER = "torch/_inductor/compile_fx.py(900): compile_fx"
FOLDER = Path(
    os.environ.get("WHYIDLE_TRACES") or Path(__file__).parents[3].parent / "shared" / "traces"
)


def job(compiling: list[int]) -> Builder:
    made = Builder()
    for pause in compiling:
        with made.step():
            if pause:
                made.python(COMPILER, pause)
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
    return made


def test_a_cold_start_and_its_steady_steps():
    sick = job([ms(400), 0, 0, 0, 0, 0])
    proof = judge("compile-autotune-warmup", sick)
    assert proof is not None
    facts = Facts(sick.timeline())
    assert facts.cold_start
    assert covers(proof, facts.step_s / float(facts.steps.seconds.mean()), slack=0.01)
    assert proof.facts.compiler


def test_a_cache_on_disk_saves_most_of_compiling_and_no_other_set_up():
    proof = judge("compile-autotune-warmup", job([ms(400), 0, 0, 0, 0, 0]))
    told = catalog.load_fixes()["compile-cache"].decide(proof).predicted
    spent = proof.high
    assert 1 / told.speedup == pytest.approx(1 - 0.8 * spent, abs=0.01)
    assert 1 / told.low == pytest.approx(1 - 0.6 * spent, abs=0.01)
    assert 1 / told.high == pytest.approx(1 - spent, abs=0.01)


def test_a_single_recorded_step_that_compiles():
    assert judge("compile-autotune-warmup", job([ms(400)])) is not None


@pytest.mark.parametrize(
    ("life", "compiling", "told"), [(9, 6, True), (90, 6, False), (5, 3, False)]
)
def test_a_start_that_took_most_of_a_run_is_told_for_each_run(life, compiling, told):
    """Its steps are as fast without it; nobody knows how long the job is meant to run."""
    timeline = job([ms(1000 * compiling), *[0] * 40]).timeline()
    timeline = replace(timeline, phases=LifePhases(life_s=float(life)))
    diagnosis = diagnose_job([timeline])
    found = next(one for one in diagnosis.findings if one.cause == "compile-autotune-warmup")
    assert (found.severity == "warning") == told
    assert found.headline.startswith("Each run sets up and compiles for 6") or not told
    assert (diagnosis.findings[0] == found) or not told
    assert found.lost.high == 0.0


def test_steady_steps_have_no_start():
    assert judge("compile-autotune-warmup", job([0] * 6)) is None


def test_a_warm_up_step_outside_the_steady_ones_is_not_their_cost():
    assert judge("compile-autotune-warmup", job([ms(30), *[0] * 9])) is None


@pytest.mark.skipif(
    not (FOLDER / "kineto").is_dir(), reason="the shared real traces are not on this machine"
)
@pytest.mark.parametrize(
    "name", ["resnet50_v100_cold_start", "particle_transformer_a100_bs512_first_iter"]
)
def test_real_cold_starts(name):
    timeline = kineto.load(FOLDER / "kineto" / f"{name}.pt.trace.json.gz")
    proof = judge("compile-autotune-warmup", timeline)
    assert proof is not None
    assert proof.low > 0.5
    facts = Facts(timeline)
    if facts.cold_start:
        assert covers(proof, facts.step_s / float(facts.steps.seconds.mean()), slack=0.01)


def test_a_job_of_the_cpu_compiles_too():
    sick = Builder()
    for pause in (ms(400), 0, 0, 0, 0, 0):
        with sick.step():
            if pause:
                sick.python(COMPILER, pause)
            for _ in range(20):
                sick.op("aten::mm", host=us(500))
    diagnosis = diagnose_job([replace(sick.timeline(), info=DeviceInfo())])
    assert diagnosis.findings[0].cause == "compile-autotune-warmup"
    assert "set-up takes" in diagnosis.verdict.headline


PAIRS = {
    "compile-autotune-warmup": Pair(
        sick=lambda: job([ms(400), 0, 0, 0, 0, 0]), healthy=lambda: job([ms(20)] * 6)
    )
}
