"""A patch changes what a trial has changed: where each object was made goes from the job to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from clinic import warmed
from whyidle.fix.patching.source_patch import KeptFix, make_patch
from whyidle.model.diagnosis import Edit
from whyidle.model.knobs import Setting
from whyidle.record.plan_channel import merge_lines, read_applied_knobs, write_request

pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.real_processes("each test runs a real job")

RUN = """
import runpy, sys
from whyidle.probe import knobs
knobs.install(sys.argv[1])
runpy.run_path("train.py", run_name="__main__")
"""
HEAD = """from functools import partial
import torch
from torch.utils.data import DataLoader, IterableDataset

class Lines(IterableDataset):
    def __iter__(self):
        yield from range(9)

class Own(DataLoader):
    def __init__(self, data, **named):
        super().__init__(data, **named)

{0}def later():
    return DataLoader(range(9))

"""
WORKERS = Edit(knob="loader.workers", value=4, was=0)
KEEP = Edit(knob="loader.persistent_workers", value=True, was=False)
FUSED = Edit(knob="optimizer.foreach", value=True)


@pytest.fixture
def patched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``patched(lines, *edits)``: the lines that the patch adds to a script, and what is told of
    others, after the edits were tried in it."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / ".git").mkdir()

    def patch(body: str, *edits: Edit, head: str = "") -> tuple[list[str], str]:
        (tmp_path / "train.py").write_text(HEAD.format(head) + body)
        recording = tmp_path / "recording"
        was: dict[str, Setting | None] = {edit.knob: edit.was for edit in edits}
        told = write_request({edit.knob: edit.value for edit in edits}, was, recording)
        (tmp_path / "run.py").write_text(RUN)
        said = tmp_path / "said.txt"
        said.touch()
        with warmed.warm(["run.py", str(recording)], tmp_path, {**os.environ, **told}, said) as job:
            assert not job.wait(), said.read_text()
        made = read_applied_knobs(recording).made
        found = make_patch(
            [KeptFix("fix", edits)],
            ["python", "train.py"],
            tmp_path,
            made=merge_lines([made, made]),
        )
        lines = found.diff.splitlines()[3:]
        said = "\n".join((*found.sentences, *found.notes))
        return [line[1:] for line in lines if line[0] == "+"], said

    return patch


def test_a_loader_that_the_trial_refused_is_left_with_the_reason(patched):
    added, said = patched("train = DataLoader(range(9))\nval = DataLoader(Lines())\n", WORKERS)
    assert added == ["train = DataLoader(range(9), num_workers=4)"]
    assert "line 17 was left as it is in the trials: " in said
    assert "IterableDataset" in said
    assert "line 14 was not changed in the trials" in said  # nobody came to it


def test_what_one_line_makes_of_several_is_left_where_one_was_refused(patched):
    body = "def load(data):\n    return DataLoader(data)\nload(range(9)), load(Lines())\n"
    added, said = patched(body, WORKERS)
    assert not added
    assert "line 17 was left as it is in the trials: " in said


def test_a_constant_that_a_refused_loader_has_too_is_not_changed(patched):
    body = "train = DataLoader(range(9), num_workers=N)\nval = DataLoader(Lines(), num_workers=N)\n"
    added, _ = patched(body, WORKERS, head="N = 0\n\n")
    assert added == ["train = DataLoader(range(9), num_workers=4)"]


def test_an_option_that_a_refused_loader_has_too_is_left(patched):
    head = "import argparse\nparser = argparse.ArgumentParser()\n"
    head += "parser.add_argument('--n', type=int, default=0)\nargs = parser.parse_args([])\n\n"
    body = "train = DataLoader(range(9), num_workers=args.n)\n"
    body += "val = DataLoader(Lines(), num_workers=args.n)\n"
    added, said = patched(body, WORKERS, head=head)
    assert not added
    assert "line 21 has num_workers=args.n, as others have" in said


def test_an_option_that_a_loader_nobody_came_to_has_too_is_changed_and_that_is_told(patched):
    head = "import argparse\nparser = argparse.ArgumentParser()\n"
    head += "parser.add_argument('--n', type=int, default=0)\nargs = parser.parse_args([])\n\n"
    body = "train = DataLoader(range(9), num_workers=args.n)\n\ndef test():\n"
    body += "    return DataLoader(range(9), num_workers=args.n)\n"
    added, said = patched(body, WORKERS, head=head)
    assert added == ["parser.add_argument('--n', type=int, default=4)"]
    assert "line 24 takes the same option, and was not changed in the trials" in said
    assert "line 24 was" not in said


@pytest.mark.parametrize("body", [
    "val = DataLoader(range(9), num_workers=4)\nmake = partial(DataLoader, num_workers=0)\n"
    "train = make(range(9))\n",
    "val = DataLoader(range(9), num_workers=4)\n\ntrain = Own(range(9))\n",
], ids=["partial", "own class"])  # fmt: skip
def test_another_loader_that_has_the_setting_does_not_stand_for_the_one_that_got_it(patched, body):
    added, said = patched(body, WORKERS)
    assert not added
    assert "line 18 makes one in a way that whyidle cannot follow" in said
    assert "line 16" not in said


def test_all_edits_of_a_fix_go_by_the_lines_of_the_file_as_it_was(patched):
    body = "train = DataLoader(\n    range(9),\n    batch_size=2,\n)\nval = DataLoader(Lines())\n"
    added, said = patched(body, WORKERS, KEEP)
    assert added == ["    num_workers=4,", "    persistent_workers=True,"]
    assert said.count("line 20") == 1


def test_optimizers_go_by_their_lines_too(patched):
    body = "net = torch.nn.Linear(1, 1)\nopt = torch.optim.AdamW(net.parameters())\n"
    body += "if not opt:\n    opt = torch.optim.SGD(net.parameters())\n"
    added, said = patched(body, FUSED)
    assert added == ["opt = torch.optim.AdamW(net.parameters(), foreach=True)"]
    assert "line 19 was not changed in the trials" in said


def test_an_optimizer_whose_gradients_turn_out_to_be_sparse_is_left(patched):
    body = "net, table = torch.nn.Linear(1, 1), torch.nn.Embedding(2, 1, sparse=True)\n"
    body += "a = torch.optim.SGD(net.parameters())\nb = torch.optim.SGD(table.parameters())\n"
    body += "table(torch.tensor([0])).sum().backward()\nb.step()\n"
    added, said = patched(body, msgspec.structs.replace(FUSED, knob="optimizer.fused"))
    assert added == ["a = torch.optim.SGD(net.parameters(), fused=True)"]
    assert "line 18 was left as it is in the trials: its gradients are sparse" in said


@pytest.mark.parametrize("around", [
    "def wrapped(made, *args, **named):\n        init(made, *args, **named)",
    "def wrapped(*args, **named):\n        init(*args, **named)",
], ids=["first", "all"])  # fmt: skip
def test_what_a_library_has_put_around_its_making_is_not_the_line(patched, around):
    head = f"def wrap(init):\n    {around}\n    return wrapped\n"
    head += "DataLoader.__init__ = wrap(DataLoader.__init__)\n\n"
    added, _ = patched("train = DataLoader(range(9))\n", WORKERS, head=head)
    assert added == ["train = DataLoader(range(9), num_workers=4)"]


def test_a_line_that_has_left_one_stands_as_such(tmp_path: Path):
    for pid, why in ((1, ""), (2, "because"), (3, "")):
        told = {"made": {"a.b": {"x.py:1": why, f"x.py:{pid + 1}": ""}}}
        (tmp_path / f"{pid}.knobs.json").write_text(json.dumps(told))
    whole = {"x.py:1": "because", "x.py:2": "", "x.py:3": "", "x.py:4": ""}
    assert read_applied_knobs(tmp_path).made == {"a.b": whole}
