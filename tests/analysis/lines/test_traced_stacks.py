"""Lines and stacks of profiler traces."""

import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.step_by_line import traced_stacks
from whyidle.model.purposes import Purpose
from whyidle.testing.builder import Builder, us

MODULE = "torch/nn/modules/module.py(1789): _call_impl"


def trace(steps=4):
    """200 us of a model that keeps the GPU busy, and 300 us of a metric while it is idle."""
    job = Builder()
    for _ in range(steps):
        with job.step(), job.span("train.py(9): main", "python_function"):
            with job.span(MODULE, "python_function"):
                job.op("aten::mm", kernels=[("gemm", us(150))], host=us(190))
            job.python("train.py(40): accuracy", us(300))
    return Facts(job.timeline())


def test_times_on_top_add_up_to_the_scope():
    facts = trace()
    stacks = {each.stack: each for each in traced_stacks(facts)}
    assert f"{MODULE};train.py(9): main" in stacks
    metric = stacks["train.py(40): accuracy;train.py(9): main"]
    per_step = metric.time / facts.step_count
    assert per_step == pytest.approx(us(300), rel=0.05)
    assert metric.waits / metric.time == pytest.approx(0.5, abs=0.05)  # the kernel ends within it
    assert sum(each.time for each in stacks.values()) <= facts.host_scope.total


def test_lines_tell_what_they_do_and_whether_the_device_waits():
    lines = {line.place.function: line for line in trace().lines}
    assert lines["accuracy"].purpose is Purpose.METRICS
    assert lines["accuracy"].waits == pytest.approx(lines["accuracy"].time / 2, rel=0.1)
    assert lines["main"].purpose is Purpose.FORWARD


def test_without_python_functions_there_are_no_lines():
    job = Builder()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", kernels=[("gemm", us(150))])
    assert Facts(job.timeline()).lines == []
