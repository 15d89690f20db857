"""Whose time the step is, operator by operator, from a recording with known lengths."""

import json

import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.recording_overhead import OP_COST_S
from whyidle.readers import kineto

US = OP_COST_S * 1e6


def event(name, begin, length, category="cpu_op"):
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1,
        "ts": 1e6 + begin, "dur": length, "args": {},
    }  # fmt: skip


STEP = [
    event("aten::linear", 0, 100),
    event("aten::addmm", 10, 80),
    event("autograd::engine::evaluate_function: AddmmBackward0", 200, 100),
    event("AddmmBackward0", 210, 80),
    event("aten::mm", 220, 50),
    event("Optimizer.step#Adam.step", 400, 200, "user_annotation"),
    *[event("aten::mul_", 410 + 20 * i, 10) for i in range(5)],
]


@pytest.fixture
def facts(tmp_path):
    events = []
    for i in range(3):
        events.append(event(f"ProfilerStep#{i}", 1000 * i, 1000, "user_annotation"))
        events += [{**one, "ts": one["ts"] + 1000 * i} for one in STEP]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return Facts(kineto.load(path))


def test_an_operator_has_its_own_time_only(facts):
    found = {(one.name, one.phase): one for one in facts.operators}
    own = {key: one.total_s * 1e6 / 3 for key, one in found.items()}
    assert own == pytest.approx(
        {
            ("aten::linear", "forward"): 20 - US,
            ("aten::addmm", "forward"): 80 - US,
            ("AddmmBackward0", "backward"): 30 - US,
            ("aten::mm", "backward"): 50 - US,
            ("aten::mul_", "optimizer"): 5 * (10 - US),
        }
    )
    assert found["aten::mul_", "optimizer"].count == 15
    assert found["aten::mm", "backward"].group == "matrix_product"
    assert sum(one.share for one in facts.operators) == pytest.approx(1)
    assert facts.operators[0].name == "aten::addmm"


@pytest.mark.parametrize(
    "name", ["aten::embedding", "aten::index", "aten::index_add_", "aten::gather", "aten::scatter_"]
)
def test_what_looks_up_by_index_is_one_group(name, tmp_path):
    path = tmp_path / "t.json"
    events = [event("ProfilerStep#0", 0, 1000, "user_annotation"), event(name, 10, 100)]
    events += [event("ProfilerStep#1", 1000, 1000, "user_annotation"), event(name, 1010, 100)]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert {one.group for one in Facts(kineto.load(path)).operators} == {"indexing"}
