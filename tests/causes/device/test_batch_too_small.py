"""A batch that does not fill the device."""

from dataclasses import replace

import msgspec
import pytest

from cured_twins import covers, judge
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.model.model_look import ModelLook
from whyidle.model.timeline import DeviceInfo
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "batch-too-small"
CAUSE_ON_CPU = catalog.load_causes()[CAUSE].test
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
A100 = "NVIDIA A100-SXM4-80GB"


def forward(batch, *, host=20, loader=0.0, memory=1, shapes=True, device=A100):
    """Elementwise kernels: 4 us of latency, then their bytes at 70 % of 2039 GB/s."""
    job = Builder(device=device)
    length = us(4) + round(3 * 4 * batch * 4096 / (0.7 * 2039))
    for _ in range(4):
        with job.step():
            if loader:
                job.loader(us(loader * batch))
            job.memory(memory << 30, memory << 30)
            for _ in range(100):
                job.op(
                    "aten::add",
                    kernels=[(ADD, length)],
                    dims=[[batch, 4096], [batch, 4096], []] if shapes else None,
                    types=["float", "float", "Scalar"],
                    host=us(host),
                )
    return job


@pytest.mark.parametrize(
    ("loader", "most"), [(0, 64), (30, 32), (100, 8), (250, 2)], ids=lambda value: f"{value}"
)
def test_the_prediction_holds_the_larger_batch(loader, most):
    """Until the device is full, or loading, which grows with the batch, takes most of the step."""
    small = forward(8, loader=loader)
    proof = judge(CAUSE, small)
    assert proof is not None
    times = int(proof.facts.times)
    assert times == most
    assert proof.facts.ranks == 1
    now, then = (Facts(forward(batch, loader=loader).timeline()).step_s for batch in (8, 8 * times))
    assert proof.predicted.speedup == pytest.approx(times * now / then, rel=0.2)
    assert covers(proof, times * now / then)
    assert proof.high <= Facts(small.timeline()).bucket_share("host")


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(lambda: forward(8, memory=60), id="memory that is full"),
        pytest.param(lambda: forward(8, loader=2000), id="loading, which takes most of the step"),
        pytest.param(lambda: forward(8, shapes=False), id="no shapes"),
        pytest.param(lambda: forward(8, device="Some device"), id="unknown device"),
    ],
)
def test_silent(job):
    assert judge(CAUSE, job()) is None


def test_memory_limits_the_factor():
    proof = judge(CAUSE, forward(8, memory=30))
    assert proof is not None
    assert proof.facts.times == 2


def accumulated(passes, batch=8, optimizers=0):
    """The same kernels in so many backward passes of a step, as a watched run records them."""
    job = Builder(device=A100)
    for _ in range(4):
        with job.step():
            for number in range(100):
                add = ("aten::add", [[batch, 4096], [batch, 4096], []])
                name = "whyidle::backward" if number < passes else "aten::relu"
                with job.span(name):
                    job.op(
                        add[0],
                        kernels=[(ADD, us(4))],
                        dims=add[1],
                        types=["float", "float", "Scalar"],
                        host=us(20),
                    )
            for number in range(optimizers):
                with job.span(f"Optimizer.step#Adam{number}.step"):
                    job.now += us(1)
    return job


def test_passes_of_several_optimizers_are_not_accumulated():
    """A GAN: two losses of one network, one of the other."""
    assert fixes(judge(CAUSE, accumulated(4, optimizers=1)))
    assert not fixes(judge(CAUSE, accumulated(4, optimizers=2)))


def fixes(proof):
    plans = [catalog.load_fixes()[name].decide(proof) for name in ("larger-microbatch",)]
    return [plan for plan in plans if plan is not None]


@pytest.mark.parametrize(("passes", "times"), [(2, 2), (6, 6), (8, 8), (12, 12), (11, 11)])
def test_passes_that_are_accumulated_can_be_joined(passes, times):
    proof = judge(CAUSE, accumulated(passes))
    assert proof.facts.passes == passes
    (plan,) = fixes(proof)
    assert plan.edits[0].value == times
    assert not plan.automatic
    assert f"{passes // times} accumulation steps instead of {passes}" in plan.summary
    assert plan.predicted.speedup <= proof.predicted.speedup


PAIRS = {CAUSE: Pair(sick=lambda: forward(8), healthy=lambda: forward(4096))}


def on_cpu(batch, *, tensors=60, python=0.0, look=None):
    """Calls of 5 us with work of 2 us a sample, and an update of as many calls for all batches."""
    job = Builder(device="CPU")
    for _ in range(4):
        with job.step():
            for _ in range(40):
                job.op("aten::mul", host=us(5 + 2 * batch))
                job.op("aten::relu", host=us(5 + 2 * batch))
            with job.span("Optimizer.step#Adam.step"):
                for _ in range(tensors):
                    job.op("aten::addcmul_", host=us(15))
            job.now += us(python * batch)
    timeline = replace(job.timeline(), info=DeviceInfo(kind="cpu"))
    return replace(timeline, process=replace_look(timeline.process, look)) if look else timeline


def replace_look(process, batches):
    look = ModelLook(state="measured", device="cpu", batch=4, passes=(0.01,), batches=batches)
    return msgspec.structs.replace(process, model_look=look)


@pytest.mark.parametrize(("batch", "python"), [(1, 0.0), (4, 0.0), (4, 50.0)])
def test_a_step_on_the_cpu_pays_its_calls_once(batch, python):
    small = on_cpu(batch, python=python)
    proof = CAUSE_ON_CPU(Facts(small))
    times = proof.facts.times
    now, then = (Facts(on_cpu(b, python=python)).step_s for b in (batch, batch * times))
    assert covers(proof, times * now / then)
    assert proof.predicted.speedup == pytest.approx(times * now / then, rel=0.2)


@pytest.mark.parametrize("job", [lambda: on_cpu(64), lambda: on_cpu(4, python=500.0)])
def test_a_step_on_the_cpu_that_grows_with_its_batch_is_left_alone(job):
    assert CAUSE_ON_CPU(Facts(job())) is None


def test_it_is_a_remark_unless_most_of_the_step_is_paid_once():
    assert CAUSE_ON_CPU(Facts(on_cpu(4, tensors=120))).high > 0.5
    remark = CAUSE_ON_CPU(Facts(on_cpu(4, tensors=60)))
    assert remark.high == 0.0
    assert remark.predicted.low > 1.25


def test_measured_passes_replace_the_model():
    assert CAUSE_ON_CPU(Facts(on_cpu(4))) is not None
    assert CAUSE_ON_CPU(Facts(on_cpu(4, tensors=10, look=((4.0, 4.0), (16.0, 16.0))))) is None
    free = CAUSE_ON_CPU(Facts(on_cpu(4, look=((4.0, 1.0), (16.0, 1.0)))))
    assert free.facts.times == 16
    assert free.predicted.speedup == pytest.approx(16.0, rel=0.01)
    assert free.predicted.method == "passes measured in this job"


def watched_on_cpu(framework="pytorch", *, closure=False):
    """An update of 8 ms and passes of 2 ms; a closure calls the passes inside the optimizer."""
    job = Builder(device="CPU")
    for _ in range(4):
        with job.step(), job.span("Optimizer.step#Adam.step"):
            for _ in range(20):
                job.op("aten::mul", host=us(50 if closure else 10))
            if closure:
                with job.span("whyidle::backward"):
                    job.op("aten::mul", host=us(1000))
            for _ in range(20):
                job.op("aten::addcmul_", host=us(15))
    return replace(job.timeline(), info=DeviceInfo(kind="cpu"), framework=framework)


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_a_compiled_step_is_not_taken_for_an_update_that_is_paid_once(framework):
    assert CAUSE_ON_CPU(Facts(watched_on_cpu())).predicted.speedup > 8
    assert CAUSE_ON_CPU(Facts(watched_on_cpu(framework))) is None


def test_passes_that_an_optimizer_calls_are_not_its_update():
    """LBFGS, and every optimizer of Lightning: ``optimizer.step(closure)``."""
    assert CAUSE_ON_CPU(Facts(watched_on_cpu(closure=True))) is None


@pytest.mark.parametrize(("inputs", "found"), [("graph", False), ("xs[epoch]", True)])
def test_a_step_on_all_data_has_no_larger_batch(inputs, found):
    train = f"    f(model({inputs}), y).backward()\n    optimizer.step()\n"
    text = f"for epoch in range(200):\n{train}"
    job = replace(on_cpu(4), sources={"/job/train.py": text})
    assert (CAUSE_ON_CPU(Facts(job)) is not None) == found
