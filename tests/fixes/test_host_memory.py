"""What the fixes of host and memory causes propose, and where they hold back."""

import pytest
from family_facts import facts_of

from whyidle import catalog
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Place, Predicted

GAIN = Predicted(speedup=1.2, low=1.1, high=1.3, method="test")


def plan(fix: str, *where: Place, **facts: object):
    proof = Proof("Test", GAIN, (), where=where, facts=facts_of(fix, **facts))
    return catalog.load_fixes()[fix].decide(proof)


def edits(fix: str, **facts: object) -> dict[str, object]:
    return {edit.knob: edit.value for edit in plan(fix, **facts).edits}


def test_a_model_is_compiled():
    assert edits("compile-model", launches=900.0) == {"model.compile": True}


def test_graphs_are_offered_not_applied_and_only_for_many_launches():
    assert plan("cuda-graphs", launches=900.0).automatic is False
    assert "same shape" in plan("cuda-graphs", launches=900.0).summary
    assert plan("cuda-graphs", launches=5.0) is None


@pytest.mark.parametrize(
    ("optimizer", "switch"), [("AdamW", "fused"), ("SGD", "fused"), ("RMSprop", "foreach")]
)
def test_an_optimizer_gets_the_best_switch_it_has(optimizer, switch):
    assert edits("fused-optimizer", optimizer=optimizer) == {f"optimizer.{switch}": True}
    assert f"parameters of {optimizer}" in plan("fused-optimizer", optimizer=optimizer).summary


def test_reads_of_the_device_are_left_to_people():
    read = plan("defer-scalar-reads", scalar=True, every=20)
    assert not read.automatic
    assert [edit.knob for edit in read.edits] == ["log.deferred"]
    assert "accumulate losses" in read.summary
    assert "every 20th step" in read.summary
    for told in ({}, {"scalar": False}):
        other = plan("defer-scalar-reads", **told)
        assert not other.automatic
        assert not other.edits


def test_python_is_the_authors_to_skip():
    place = Place(file="train.py", line=44, function="accuracy")
    advice = plan("amortise-python", place, every=10)
    assert not advice.automatic
    assert "accuracy (train.py:44)" in advice.summary


@pytest.mark.parametrize("mode", ["CUDA_LAUNCH_BLOCKING", "anomaly_mode"])
def test_a_debug_mode_is_turned_off_and_back_on(mode):
    (edit,) = plan("debug-mode-off", mode=mode).edits
    assert edit.value != edit.was
    assert edit.was is not None


def test_an_unknown_debug_mode_is_left_alone():
    assert plan("debug-mode-off", mode="coverage") is None


def test_the_cache_is_emptied_less_only_where_it_is_emptied():
    assert "memory.empty_cache_every" in edits("throttle-empty-cache", emptied=True)
    assert not edits("throttle-empty-cache", emptied=False)
    assert plan("expandable-segments", emptied=True) is None
    assert "env.PYTORCH_CUDA_ALLOC_CONF" in edits("expandable-segments", emptied=False)


def test_nobody_is_told_to_pad_to_the_maximum():
    advice = plan("bucket-lengths")
    assert not advice.automatic
    assert "do not pad everything to the maximum" in advice.summary


@pytest.mark.parametrize(
    ("fix", "facts"),
    [
        ("move-op-to-device", {"operators": ("aten::linalg_eigh",)}),
        ("capture-whole-model", {}),
        ("save-memory", {}),
        ("release-references", {}),
    ],
)
def test_what_needs_the_author_is_advice(fix, facts):
    advice = plan(fix, **facts)
    assert not advice.automatic
    assert advice.risk
