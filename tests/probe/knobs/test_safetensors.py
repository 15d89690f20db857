"""Models that safetensors saves: the same file, beside the training."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

from tests.probe.standin import Loop
from whyidle.probe.frameworks.torch.checkpoints import CheckpointHooks

EDIT = {"checkpoint.asynchronous": True}
MODULE = """
import json, torch

def save_file(tensors, filename, metadata=None):
    places = [one.data_ptr() for one in tensors.values()]
    if len(set(places)) < len(places):
        raise RuntimeError("Some tensors share memory")
    head = json.dumps([sorted(tensors), metadata]).encode()
    flat = [one.detach().flatten().view(torch.uint8) for one in tensors.values()]
    data = b"".join(bytes(one.tolist()) for one in flat)
    with open(filename, "wb") as file:
        file.write(head + data)

def save_model(model, filename, metadata=None):
    save_file(dict(model.state_dict()), filename, metadata=metadata)
"""


@pytest.fixture
def flat(tmp_path, monkeypatch):
    """``flat()`` imports it. A stand-in: the real one is no dependency of ours."""
    home = tmp_path / "site" / "safetensors"
    home.mkdir(parents=True)
    (home / "__init__.py").touch()
    (home / "torch.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(home.parent))
    monkeypatch.chdir(tmp_path)
    for name in ("safetensors", "safetensors.torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def imported():
        return importlib.import_module("safetensors.torch")

    yield imported
    for name in ("safetensors", "safetensors.torch"):
        sys.modules.pop(name, None)


def tensors():
    return {"a": torch.arange(6.0), "b": torch.nn.Parameter(torch.ones(2, 3))}


@pytest.mark.parametrize("first", [True, False])
def test_the_file_is_the_same_as_of_the_call(turn, flat, first):
    module = flat() if first else None
    session = turn(EDIT)
    module = module or flat()
    given = tensors()
    module.save_file.__wrapped__(given, "plain", metadata={"format": "pt"})
    module.save_file(given, filename="c", metadata={"format": "pt"})
    given["a"].fill_(7)
    assert Path("c").read_bytes() == Path("plain").read_bytes()
    assert session.applied == {"checkpoint.asynchronous": 1}
    session.undo_changes()
    assert not hasattr(module.save_file, "__wrapped__")


def test_what_it_refuses_is_told_at_once(turn, flat):
    session, one = turn(EDIT), torch.ones(2)
    with pytest.raises(RuntimeError, match="share memory"):
        flat().save_file({"a": one, "b": one}, "c")
    assert not session.applied


class Saved(Loop):
    """With what is told of its saves."""

    @property
    def saves(self):
        return self.live_facts["saves"]()


@pytest.mark.parametrize("first", [True, False])
def test_the_watch_counts_it_once(flat, first):
    module, loop = flat() if first else None, Saved()
    CheckpointHooks(loop).install_hooks(torch)
    try:
        module = module or flat()
        module.save_model(torch.nn.Linear(2, 2), "c")
        assert loop.spans == ["save_checkpoint"]
        (one,) = loop.saves
        assert (one["path"], one["bytes"]) == ("c", Path("c").stat().st_size)
        assert not loop.faults
    finally:
        for undo in loop.undo.values():
            undo()
    assert not hasattr(module.save_file, "__wrapped__")


def test_watch_and_knob_wait_for_the_same_module(turn, flat):
    session, loop = turn(EDIT), Saved()
    CheckpointHooks(loop).install_hooks(torch)
    try:
        flat().save_file(tensors(), "c")
        assert loop.spans == ["save_checkpoint"]
        assert session.applied == {"checkpoint.asynchronous": 1}
    finally:
        for undo in loop.undo.values():
            undo()
