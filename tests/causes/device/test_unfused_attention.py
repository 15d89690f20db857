"""Softmaxes of the script and softmaxes inside PyTorch's own attention."""

import pytest

from whyidle.analysis.facts import Facts
from whyidle.causes.device._unfused_attention import framework_softmaxes
from whyidle.testing.builder import Builder, us

FORWARD, GRADIENT = "aten::_softmax", "aten::_softmax_backward_data"
OWN, WRITTEN = "aten::scaled_dot_product_attention", ""


def softmax(job, name, thread):
    with job.thread(thread):
        job.op(name, host=us(100))


def mark_softmaxes(job):
    """Of all softmax operators in order, whether each is PyTorch's own."""
    facts = Facts(job.timeline())
    host, names = facts.timeline.host, facts.timeline.names
    rows = [row for row, i in enumerate(host.name) if names[i] in (FORWARD, GRADIENT)]
    own = framework_softmaxes(facts)
    return "".join("o" if row in own else "." for row in rows)


def forward(job, *kinds):
    for kind in kinds:
        if kind is OWN:
            with job.span(OWN, "cpu_op"):
                softmax(job, FORWARD, 100)
        else:
            softmax(job, FORWARD, 100)


def backward(job, layers, thread=100):
    for _ in range(layers):
        softmax(job, GRADIENT, thread)


@pytest.mark.parametrize("thread", [100, 200], ids=["one thread", "a thread of its own"])
def test_the_last_layers_gradient_comes_first(thread):
    job = Builder()
    for _ in range(2):
        with job.step():
            forward(job, WRITTEN, OWN, OWN)
            backward(job, 3, thread)
    assert mark_softmaxes(job) == ".oooo." * 2


def test_layers_that_are_computed_anew():
    job = Builder()
    with job.step():
        forward(job, WRITTEN, OWN)
        for kind in (OWN, WRITTEN):
            forward(job, kind)
            backward(job, 1)
    assert mark_softmaxes(job) == ".ooo.."


def test_a_call_on_another_thread_holds_nothing():
    job = Builder()
    with job.step(), job.span(OWN, "cpu_op"):
        softmax(job, FORWARD, 300)
    assert mark_softmaxes(job) == "."


def test_a_gradient_without_its_softmax_is_nobodys():
    job = Builder()
    with job.step():
        backward(job, 1)
        forward(job, OWN)
    assert mark_softmaxes(job) == ".o"
