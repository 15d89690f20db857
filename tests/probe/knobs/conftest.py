"""Knobs are turned in this very process, and everything is as before afterwards."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import BatchSampler, DataLoader, _utils, dataloader  # noqa: E402

from whyidle.probe import knobs  # noqa: E402
from whyidle.probe.core import fault_containment as guard  # noqa: E402

PLACES = [
    (torch, "set_num_threads"),
    (torch._C, "_set_cudnn_benchmark"),
    (torch, "set_float32_matmul_precision"),
    (torch, "set_anomaly_enabled"),
    (torch.Tensor, "cuda"),
    (torch.nn.Module, "__call__"),
    (torch.nn.Linear, "__call__"),
    (torch.nn.Sequential, "__call__"),
    (torch.optim.Adam, "__init__"),
    (torch.optim.AdamW, "__init__"),
    (torch.optim.SGD, "__init__"),
    (torch.nn.utils, "clip_grad_norm_"),
    (DistributedDataParallel, "__init__"),
    (DistributedDataParallel, "forward"),
    (DataLoader, "__init__"),
    (DataLoader, "__iter__"),
    (BatchSampler, "__iter__"),
    (dataloader._BaseDataLoaderIter, "__next__"),
    (_utils.pin_memory, "pin_memory"),
    (_utils.fetch._MapDatasetFetcher, "__init__"),
    (_utils.fetch._IterableDatasetFetcher, "__init__"),
    (gc, "collect"),
]


def state():
    """All that knobs put something else in the place of, or set."""
    settings = (
        gc.isenabled(),
        gc.get_freeze_count(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.benchmark,
        vars(type(torch.backends.cudnn))["benchmark"],
    )
    return [getattr(owner, name) for owner, name in PLACES], settings


@pytest.fixture(autouse=True)
def unseen(monkeypatch):
    """Faults are noted once per place and process: in each test anew."""
    monkeypatch.setattr(guard, "seen", set())


@pytest.fixture
def turn(tmp_path_factory):
    """``turn(edits, was, implementations)`` turns knobs; they are turned back at the end."""
    hands = []
    before = state()

    def turned(edits, was=None, implementations=None):
        folder = str(tmp_path_factory.mktemp("told"))
        asked = {"edits": edits, "was": was or {}, "implementations": implementations or {}}
        session = knobs.KnobSession(folder, asked)
        hands.append(session)
        session.apply_knobs()
        return session

    yield turned
    for session in reversed(hands):
        session.undo_changes()
    assert state() == before


@pytest.fixture
def faults():
    """What was noted of mistakes of ours."""
    return lambda session: [
        line
        for path in sorted(Path(session.folder).glob("*.faults"))
        for line in path.read_text().splitlines()
    ]
