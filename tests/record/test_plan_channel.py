"""How the probe is asked to apply fixes, and what is told of it."""

import json
from pathlib import Path

import pytest

from whyidle.record.plan_channel import describe_applied, read_applied_knobs, write_request


def test_what_is_asked_for_and_where_it_stands(tmp_path):
    variables = write_request(
        {"loader.workers": 4, "env.OMP_NUM_THREADS": "1", "env.GONE": None},
        {"loader.workers": 0, "env.OMP_NUM_THREADS": None},
        tmp_path,
    )
    path = variables.pop("WHYIDLE_PLAN")
    assert variables == {"OMP_NUM_THREADS": "1"}
    told = json.loads(Path(path).read_text())
    assert told["edits"]["loader.workers"] == 4
    assert told["was"]["loader.workers"] == 0


@pytest.mark.parametrize(
    ("own", "becomes"),
    [
        ({}, "expandable_segments:True"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "a:1"}, "a:1,expandable_segments:True"),
        ({"PYTORCH_ALLOC_CONF": "b:2"}, "b:2,expandable_segments:True"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "a:1", "PYTORCH_ALLOC_CONF": "b:2"},
         "a:1,expandable_segments:True"),
    ],
)  # fmt: skip
def test_what_the_user_has_asked_of_the_allocator_stays(tmp_path, monkeypatch, own, becomes):
    """The newer name counts only where the older one is not set: its settings move there."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    knob = "env.PYTORCH_CUDA_ALLOC_CONF"
    variables = write_request({knob: "expandable_segments:True"}, {knob: None}, tmp_path)
    assert variables["PYTORCH_CUDA_ALLOC_CONF"] == becomes


def test_processes_are_told_together(tmp_path):
    for pid, applied, declined in ((1, {"a.b": 2}, {}), (2, {"a.b": 1}, {"c.d": "because"})):
        told = {"applied": applied, "declined": declined}
        text = json.dumps(told)
        (tmp_path / f"{pid}.knobs.json").write_text(text)
    (tmp_path / "3.knobs.json").write_text('{"appl')  # it was killed
    assert read_applied_knobs(tmp_path).applied == {"a.b": 3}
    assert read_applied_knobs(tmp_path).declined == {"c.d": "because"}


def test_what_was_waited_for_counts_where_nobody_knows_better(tmp_path):
    every = [
        {"applied": {}, "declined": {"c.d": "because"}, "waiting": {"a.b": "x"}},
        {"applied": {"a.b": 1}, "declined": {}, "waiting": {"c.d": "x", "e.f": "it never came"}},
    ]
    for pid, told in enumerate(every):
        (tmp_path / f"{pid}.knobs.json").write_text(json.dumps(told))
    assert read_applied_knobs(tmp_path).declined == {"c.d": "because", "e.f": "it never came"}


def test_sentences(tmp_path):
    assert describe_applied(tmp_path) == []
    edits = {"a.b": True, "c.d": 2, "e.f": "x", "g.h": 1, "env.A": "1"}
    write_request(edits, {}, tmp_path)
    told = {"applied": {"a.b": 1, "g.h": 1}, "declined": {"c.d": "because", "g.h": "later"}}
    (tmp_path / "1.knobs.json").write_text(json.dumps(told))
    assert describe_applied(tmp_path) == [
        'Applied without editing the script: a.b = True, g.h = 1, env.A = "1"',
        "Not applied: c.d = 2: because",
        'Not applied: e.f = "x": it took no effect in this job',
        "Not applied everywhere: g.h = 1: later",
    ]
