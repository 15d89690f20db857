"""Unfused attention of jobs on the CPU, from operators."""

from dataclasses import replace

import pytest

from cured_twins import covers, judge
from watched_run import add_facts
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import DeviceInfo
from whyidle.readers import kineto
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "naive-attention"


def train(kind="written out", *, product="aten::bmm", softmax="aten::_softmax", weights=4000):
    """A layer's projections and its attention, forward and backward, in a few steps."""
    job = Builder()
    gradient = f"{softmax}_backward_data"
    for _ in range(6):
        with job.step():
            for name in (softmax, gradient):
                job.op("aten::addmm", host=us(5000))
                if kind == "fused":
                    job.op("aten::_scaled_dot_product_flash_attention_for_cpu", host=us(2600))
                    continue
                job.op(product, host=us(1000))
                job.op("aten::div", host=us(weights))
                job.op(name, host=us(weights))
                with job.span("aten::matmul", "cpu_op"):
                    job.op(product, host=us(1000))
    return replace(job.timeline(), info=DeviceInfo())


def test_the_prediction_covers_the_twin():
    sick, cured = Facts(train()), Facts(train("fused"))
    proof = judge(CAUSE, train())
    assert covers(proof, sick.step_s / cured.step_s)
    assert proof.high < 10 / 15  # the projection stays
    values = {row.quantity: row.value for row in proof.evidence}
    assert values["softmaxes between two products, per step"] == 1  # its gradient is none more


def test_a_softmax_of_which_only_the_gradient_is_found_is_one():
    """Something is looked up between its own products."""
    job = Builder()
    for _ in range(6):
        with job.step():
            for name in ("aten::_softmax", "aten::_softmax_backward_data"):
                job.op("aten::bmm", host=us(1000))
                if name == "aten::_softmax":
                    job.op("aten::embedding", host=us(100))
                job.op(name, host=us(2000))
                job.op("aten::bmm", host=us(1000))
    values = {
        each.quantity: each.value
        for each in judge(CAUSE, replace(job.timeline(), info=DeviceInfo())).evidence
    }
    assert values["softmaxes between two products, per step"] == 1


def test_a_bias_that_is_looked_up_by_position_lies_between_the_products():
    job = Builder()
    for _ in range(6):
        with job.step():
            for name in ("aten::bmm", "aten::index", "aten::add", "aten::_softmax", "aten::bmm"):
                job.op(name, host=us(1000))
    assert judge(CAUSE, replace(job.timeline(), info=DeviceInfo())) is not None


@pytest.mark.parametrize(
    "timeline",
    [
        train("fused"),
        train(product="aten::mm"),
        train(softmax="aten::_log_softmax"),
        train(weights=10),
    ],
    ids=["fused", "products of no batch", "a classifier's", "hardly worth it"],
)
def test_near_misses(timeline):
    found = judge(CAUSE, timeline)
    assert found is None or found.predicted.speedup < 1.03


@pytest.mark.parametrize("written", [True, False])
def test_pytorchs_own_attention_with_dropout_is_not_the_users(tmp_path, written):
    """PyTorch has no fused kernel for it on a CPU, and calls product, softmax, product."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    attend = _by_hand if written else torch.nn.functional.scaled_dot_product_attention
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        for step in range(6):
            with torch.profiler.record_function(f"ProfilerStep#{step}"):
                tensors = [torch.randn(2, 4, 128, 32, requires_grad=True) for _ in range(3)]
                attend(*tensors, dropout_p=0.1).square().sum().backward()
    recorded.export_chrome_trace(str(tmp_path / "recorded.json"))
    found = judge(CAUSE, replace(kineto.load(tmp_path / "recorded.json"), info=DeviceInfo()))
    assert (found is not None) == written


def _by_hand(query, key, value, dropout_p):
    torch = pytest.importorskip("torch")
    weights = torch.softmax(query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5, -1)
    return torch.nn.functional.dropout(weights, dropout_p) @ value


def with_burst(live, timeline, **entry):
    """The finding of a watched run of which this was recorded in between, if there is one."""
    told = {"file": "b", "state": "recorded", "step": 1, "steps": 6, "cost_s": 0.1, "window": "b"}
    run = live.timeline()
    seen = replace(timeline, info=DeviceInfo(), process=run.process)
    bursts = (add_facts(seen, {"burst": told | entry}),)
    found = diagnose_job([replace(run, bursts=bursts)]).findings
    return next((one for one in found if one.cause == CAUSE), None)


def test_a_watched_job_is_judged_by_its_burst_and_not_at_all_without_one():
    job = RecordedJob()
    for _ in range(6):
        job.work("/job/train.py(20): main", ms(20))
        job.backward("/job/train.py(21): main", ms(20))
        job.step("/job/train.py(22): main", ms(2))
    missed = {one.cause: one.missing for one in diagnose_job([job.timeline()]).abstentions}
    assert CAUSE in missed
    found = with_burst(job, train(), step=2)
    assert {one.window for one in found.evidence} == {"b"}


def test_the_line_is_one_at_which_the_run_was_looked_at_meanwhile():
    """Of its forward pass; the gradient is computed at the line that asks for it."""
    live, job = RecordedJob(), Builder()
    begin = live.now - 1
    for _ in range(6):
        with job.step():
            layer(job, "aten::_softmax", times=5)
            live.work("/job/model.py(7): attend;/job/train.py(3): main", ms(30))
            layer(job, "aten::_softmax_backward_data", times=5)
            live.backward("/job/train.py(4): main", ms(30))
            with job.span("Optimizer.step#SGD.step"):
                job.quiet(ms(2))
            live.step("/job/train.py(5): main", ms(2))
    found = with_burst(live, job.timeline(), begin=begin, end=live.now)
    assert [place.line for place in found.where] == [7]


def layer(job, name, times):
    for operator, host in (("bmm", 1), ("div", 2), (name[6:], 2), ("bmm", 1)):
        job.op(f"aten::{operator}", host=us(1000 * host * times))


SWITCHES = {
    "torch": "/v/torch/nn/functional.py(6800): multi_head_attention_forward;"
    "/v/torch/nn/modules/activation.py(1500): forward;",
    "transformers": "/v/transformers/models/bert/modeling_bert.py(120): eager_attention_forward;",
    "": "/v/torch/nn/functional.py(2100): softmax;",
}


@pytest.mark.parametrize("library", SWITCHES)
def test_what_a_library_wrote_out_can_be_switched(library):
    """The line is the caller's, whenever the run was looked at there."""
    live = RecordedJob()
    for _ in range(6):
        live.work(f"{SWITCHES[library]}/job/model.py(7): attend;/job/train.py(3): main", ms(30))
        live.step("/job/train.py(5): main", ms(2))
    found = with_burst(live, train())
    assert [place.line for place in found.where] == [7]
    (fix,) = [one for one in found.fixes if one.fix == "sdpa-attention"]
    assert not fix.automatic
    assert [edit.knob for edit in fix.edits] == ["model.attention"] * (library == "transformers")
    words = {"torch": "that nothing reads (", "transformers": "attn_", "": "written-out product"}
    assert [key for key, word in words.items() if word in fix.summary] == [library]
    compiled = [one for one in found.fixes if one.fix == "compile-model"]
    assert bool(compiled) == (library == "")
    for one in compiled:  # its own line is what remains of it: the products stay
        assert one.automatic
        assert 1.0 < one.predicted.low < one.predicted.speedup < fix.predicted.speedup
        assert one.predicted.high < fix.predicted.high


def test_a_softmax_that_the_run_was_seen_in_need_not_be_that_of_attention():
    """A classifier has one, too."""
    live, job = RecordedJob(), Builder()
    for _ in range(6):
        live.work(f"{SWITCHES['']}/job/train.py(9): report;/job/train.py(3): main", ms(30))
        live.step("/job/train.py(5): main", ms(2))
        with job.step():
            layer(job, "aten::_softmax", times=5)
            job.op("aten::addmm", host=ms(2))
            job.op("aten::_softmax", host=ms(1))
    found = with_burst(live, job.timeline())
    assert found.where == []


def test_where_no_frames_are_known_either_may_be_switched():
    seen = diagnose_job([train()])
    (found,) = [one for one in seen.findings if one.cause == CAUSE]
    (fix,) = [one for one in found.fixes if one.fix == "sdpa-attention"]
    assert "need_weights=False" in fix.summary
    assert "attn_implementation" in fix.summary
    assert [edit.knob for edit in fix.edits] == ["model.attention"]
