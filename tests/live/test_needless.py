"""Work that nobody needs, on real jobs: debugging modes left on, activations computed twice."""

import sys

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

MODES = """
import sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
mode = sys.argv[1]
layers = [m for _ in range(30) for m in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train():
    for _ in range(300):
        loss = model(torch.randn(64, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if mode == "anomaly_mode":
    torch.autograd.set_detect_anomaly(True)  # anomaly_mode
    train()
elif mode == "torch_profiler":
    with torch.autograd.profiler.profile():  # torch_profiler
        train()
else:
    train()
"""
CHECKPOINTS = """
import sys, torch
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
torch.set_num_threads(1)
kind = sys.argv[1]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            if kind == "kept":
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=kind == "reentrant")  # HERE
        return x


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(100):
    loss = model(torch.randn(128, 256, requires_grad=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""
FAULT = """
import torch
import _whyidle_probe.frameworks.torch.debug_modes as debugging
def broken(*args):
    raise ValueError("a planted fault")
debugging.describe_stack = broken
"""


def diagnosed(watching, text, *words):
    script = watching.folder / "train.py"
    script.write_text(text)
    done = watching.run(script, *words)
    assert done.returncode == 0, done.stderr
    return watching.diagnosis(), script, done


def line_of(script, mark):
    return next(i for i, line in enumerate(script.read_text().splitlines(), 1) if mark in line)


@pytest.mark.parametrize("mode", ["anomaly_mode", "torch_profiler"])
def test_a_debugging_mode_is_named_first(watching, mode):
    diagnosis, script, _ = diagnosed(watching, MODES, mode)
    first = diagnosis["findings"][0]
    assert first["cause"] == "debug-mode-left-on"
    assert first["headline"] in diagnosis["verdict"]["headline"]
    (place,) = first["where"]
    assert (place["file"], place["line"]) == (str(script), line_of(script, f"# {mode}"))


def test_no_debugging_mode(watching):
    diagnosis, _, _ = diagnosed(watching, MODES, "none")
    assert "debug-mode-left-on" not in [found["cause"] for found in diagnosis["findings"]]


@pytest.mark.parametrize("kind", ["saved", "reentrant"])
def test_activations_computed_twice(watching, kind):
    diagnosis, script, _ = diagnosed(watching, CHECKPOINTS, kind)
    first = diagnosis["findings"][0]
    assert first["cause"] == "needless-compute"
    assert first["severity"] == "warning"
    assert first["where"][0]["line"] == line_of(script, "# HERE")
    assert "of the memory is free" in first["headline"]


def test_activations_kept(watching):
    diagnosis, _, _ = diagnosed(watching, CHECKPOINTS, "kept")
    assert not [f for f in diagnosis["findings"] if f["severity"] != "info"]


def test_a_fault_never_reaches_the_job(watching):
    diagnosis, _, done = diagnosed(watching, FAULT + MODES, "anomaly_mode")
    (note,) = [note for note in diagnosis["coverage"]["notes"] if "planted" in note]
    assert "set_detect_anomaly" in note
    assert diagnosis["findings"][0]["cause"] == "debug-mode-left-on"
    alone = watching.alone(sys.executable, "-c", MODES, "anomaly_mode")
    assert done.stdout == alone.stdout
