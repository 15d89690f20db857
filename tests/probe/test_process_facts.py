"""What a process says of itself."""

import json
import subprocess
import sys

import pytest
import standin
from own_sgd import OWN_SGD

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from whyidle.model import process_facts as declared  # noqa: E402
from whyidle.probe.frameworks.torch import process_facts  # noqa: E402


def described(loop):
    return process_facts.FactsReader(loop, lambda: False)


def test_a_switch_that_cannot_be_asked_costs_no_other(monkeypatch):
    faults = []
    loop = standin.Trained()
    loop.remove_faulty = lambda where, error: faults.append((where, str(error)))
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: 1 / 0)
    told = described(loop).shared_switches(torch)
    assert (told["deterministic"], told["cudnn_benchmark"]) == (None, False)
    assert faults == [("switch deterministic", "division by zero")]


UNASKED = f"""
import sys
{OWN_SGD}def available():
    raise SystemExit("CUDA was asked before the job chose its devices")
torch.cuda.is_available = available
from whyidle.probe.core.session import Session
from whyidle.probe.frameworks.torch.adapter import Adapter
own = Session(sys.argv[1], Adapter()).events
net = torch.nn.Linear(4, 1)
optimizer = SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
assert own.steps == 3, own.steps
"""


def test_cuda_is_not_asked_whether_it_is_there(tmp_path):
    """That alone settles which devices a process may use, and a script may not have chosen yet."""
    command = [sys.executable, "-c", UNASKED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


EARLY = """
import sys
import torch
torch.version.cuda = torch.version.cuda or "13.0"
from whyidle.probe.core.session import Session
from whyidle.probe.frameworks.torch.adapter import Adapter
own = Session(sys.argv[1], Adapter()).events
from torch.cuda import empty_cache
assert own.undo["cuda.empty_cache"]
empty_cache()
assert "cache_release\ttorch.cuda: empty_cache" in own.recorder.names, own.recorder.names
from torch.accelerator import empty_cache
try:
    empty_cache()
except RuntimeError:  # none is there
    pass
assert "cache_release\ttorch.accelerator: empty_cache" in own.recorder.names, own.recorder.names
"""


def test_calls_that_a_script_imports_by_name_are_seen(tmp_path):
    command = [sys.executable, "-c", EARLY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_optimizers_beside_the_first_are_told_by_the_names_of_their_steps():
    loop = standin.Loop()
    loop.add_listener(described(loop))
    many = [torch.nn.Parameter(torch.zeros(3)) for _ in range(4)]
    first, second, third = (
        kind(many, lr=0.1) for kind in (torch.optim.Adam, torch.optim.Adam, torch.optim.SGD)
    )
    loop.number_optimizer(first)
    assert "optimizers" not in loop.recorder.facts  # of the first all is told when it has stepped
    loop.recorder.facts = {"optimizer": {"name": "Adam"}}
    for one in (second, third, second):
        loop.number_optimizer(one)
    told = loop.recorder.facts["optimizers"]
    assert list(told) == ["Optimizer.step#Adam.step (2)", "Optimizer.step#SGD.step"]
    assert [(one["name"], one["tensors"], one["elements"]) for one in told.values()] == [
        ("Adam", 4, 12),
        ("SGD", 4, 12),
    ]


def test_of_ever_new_optimizers_the_first_few_are_told():
    loop = standin.Loop()
    loop.add_listener(described(loop))
    loop.recorder.facts = {"optimizer": {"name": "Sgd"}}
    one = [torch.nn.Parameter(torch.zeros(3))]
    made = [torch.optim.SGD(one, lr=0.1) for _ in range(50)]
    for one in made:
        loop.number_optimizer(one)
    assert len(loop.recorder.facts["optimizers"]) == 8


BESIDES = {"rank", "world_size", "path", "gc_threshold"}
"""what readers take from the document itself"""


def test_the_probe_writes_what_is_declared(tmp_path):
    """The probe imports nothing of ours: only this test holds both sides together."""
    command = [sys.executable, "-c", UNASKED, str(tmp_path)]
    subprocess.run(command, check=True)
    (path,) = tmp_path.glob("*.facts.json")
    facts = json.loads(path.read_text())
    for kind, part in (
        (declared.ProcessFacts, facts),
        (declared.Switches, facts["switches"]),
        (declared.OptimizerFacts, facts["optimizer"]),
    ):
        assert set(part) - BESIDES <= set(kind.__struct_fields__)
