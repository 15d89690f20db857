from dataclasses import replace

import pytest

from cured_twins import covers, judge, twin_speedup
from watched_run import add_facts
from whyidle import catalog
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "unfused-optimizer"
OPERATORS = ("lerp_", "mul_", "addcmul_", "sqrt", "div_", "add_", "addcdiv_")


def train(
    how: str, *, optimizer: str = "Adam", parameters: int = 60, fused_us: float = 200
) -> Builder:
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(10):
                job.op("aten::mm", kernels=[("gemm", us(200))], host=us(30))
            with job.span(f"Optimizer.step#{optimizer}.step"):
                update(job, how, parameters, fused_us)
    return job


def update(job: Builder, how: str, parameters: int, fused_us: float) -> None:
    if how == "loop":
        for _ in range(parameters):
            for name in OPERATORS:
                job.op(f"aten::{name}", kernels=[("elementwise_kernel", us(3))], host=us(8))
    elif how == "foreach":
        for name in OPERATORS:
            job.op(
                f"aten::_foreach_{name}",
                kernels=[("multi_tensor_apply_kernel", us(60))] * 2,
                host=us(90),
            )
    elif how == "fused":
        kernel = "multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"
        job.op("aten::_fused_adam_", kernels=[(kernel, us(fused_us))] * 2, host=us(200))
    elif how == "apex":
        for _ in range(25):
            job.op("FusedAdam", kernels=[("multi_tensor_apply_kernel<AdamFunctor>", us(4))])


@pytest.mark.parametrize(("how", "fused_us"), [("loop", 245), ("foreach", 164)])
def test_the_prediction_covers_the_fused_twin(how, fused_us):
    """Two fused kernels that move 7/18 of the bytes."""
    sick = train(how)
    proof = judge(CAUSE, sick)
    assert proof
    assert proof.facts.implementation == how
    assert covers(proof, twin_speedup(sick, train("fused", fused_us=fused_us)), slack=0.04)


@pytest.mark.parametrize("how", ["fused", "apex"])
def test_fused_code_is_left_alone(how):
    assert judge(CAUSE, train(how)) is None


def test_an_optimizer_of_ones_own_has_no_switch():
    assert judge(CAUSE, train("loop", optimizer="Shampoo")) is None


def test_a_handful_of_parameters_is_no_loop():
    assert judge(CAUSE, train("loop", parameters=2)) is None


def test_many_small_parameters_fuse_better_than_by_bytes():
    """Most of each kernel's three microseconds is its own start."""
    sick = train("loop", parameters=250)
    proof = judge(CAUSE, sick)
    assert proof
    assert covers(proof, twin_speedup(sick, train("fused", fused_us=450)), slack=0.04)


def on_device(how: str, launches: int, took: float, host: float = 4) -> Builder:
    """A device that is the bottleneck; launches that do next to nothing take two microseconds."""
    job = Builder()
    for _ in range(4):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("gemm", us(2000))], host=us(4))
            job.op("aten::sum", kernels=[("reduce_kernel", us(2))], host=us(4))
            with job.span("Optimizer.step#AdamW.step"):
                for _ in range(launches):
                    name, kernel = OPERATORS[0], "elementwise_kernel"
                    if how == "fused":
                        name, kernel = "_fused_adamw_", "multi_tensor_apply_kernel<FusedAdam>"
                    job.op(f"aten::{name}", kernels=[(kernel, us(took))], host=us(host))
    return job


def test_what_kernels_take_is_computing_and_starts_are_paid_once():
    sick = on_device("loop", 2000, 2.2)
    proof = judge(CAUSE, sick)
    assert proof.bucket == "compute"
    gain = twin_speedup(sick, on_device("fused", 1, 2000 * 0.2 * (1 + 7 / 20) / 2))
    assert covers(proof, gain)
    assert proof.predicted.speedup == pytest.approx(gain, rel=0.05)


def test_what_launches_take_is_the_host_s():
    assert judge(CAUSE, on_device("loop", 2000, 2.2, host=30)).bucket == "host"


def test_launches_that_are_slow_for_their_recording_are_not_the_host_s():
    """Unrecorded, the host would be ahead of its device all the time."""
    sick = on_device("loop", 4000, 20.0, host=26)
    burst = {"burst": {"before_s": 0.084, "during_s": 0.12}}
    seen = add_facts(sick.timeline(), burst)
    assert judge(CAUSE, sick).bucket == "host"
    assert judge(CAUSE, seen).bucket == "compute"


@pytest.mark.parametrize(("noun", "risk"), [("CPU", "floating-point"), ("GPU", "on the GPU")])
def test_the_risk_names_the_device_that_it_is_about(noun, risk):
    proof = judge(CAUSE, train("loop"))
    assert proof.facts.noun == "GPU"
    changed = replace(proof, facts=replace(proof.facts, noun=noun))
    assert catalog.load_fixes()["fused-optimizer"].decide(changed).risk.endswith(risk)


PAIRS = {CAUSE: Pair(sick=lambda: train("loop"), healthy=lambda: train("fused"))}
