"""What is noted of a job that dies for lack of memory: a real failure of the CPU's allocator."""

import json
import sys

import pytest
from own_sgd import OWN_SGD

from whyidle.__main__ import main
from whyidle.probe.frameworks.torch import out_of_memory

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

CUDA = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 1.50 GiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch, and "
    "3.00 GiB is reserved by PyTorch but unallocated."
)


LIMITED = f"""
import resource, sys
{OWN_SGD}from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(3000, 3000), nn.ReLU(), nn.Linear(3000, 10), nn.ReLU())
optimizer = SGD(model.parameters(), 0.1)
for step in range(4):
    size = 64 if step < 3 else int(sys.argv[1])
    images = torch.ones(size, 3000)
    optimizer.zero_grad()
    model(images).sum().backward()
    optimizer.step()
    if not step:
        with open("/proc/self/status") as file:
            held = int(file.read().partition("VmSize:")[2].split()[0]) << 10
        resource.setrlimit(resource.RLIMIT_AS, (held + (200 << 20),) * 2)
"""


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.first(x)
        torch.empty(1 << 47, dtype=torch.uint8)
        return self.second(hidden)


def test_owners_line_and_module_of_a_real_failure(tmp_path, monkeypatch):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    net.first(torch.ones(1, 8)).sum().backward()
    optimizer.step()
    batch = torch.ones(1000, 8)
    kept = [torch.ones(500, 8) for _ in range(3)]
    with pytest.raises(RuntimeError) as caught:
        net(batch)
    monkeypatch.setattr(sys, "last_value", caught.value, raising=False)
    out_of_memory._write_notes(str(tmp_path))
    notes = json.loads(next(tmp_path.glob("*.oom.json")).read_text())
    assert notes["requested"] == 1 << 47
    assert notes["file"] == __file__
    assert notes["function"] == "forward"
    assert notes["module"] == "(Net)"
    assert notes["parameters"] >= 2 * (64 + 8) * 4
    assert notes["optimizer"] >= 2 * (64 + 8) * 4
    assert ["batch", [1000, 8], 32000] in notes["largest"]
    assert ["kept, 3 tensors of", [500, 8], 48000] in notes["largest"]
    assert len(kept) == 3


@pytest.mark.real_processes("the address space of a process is limited")
def test_a_larger_step_is_told_with_its_owners(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (job := tmp_path / "job.py").write_text(LIMITED)
    assert main(["run", "--json", "-", "--", sys.executable, str(job), "9000"]) == 1
    death = json.loads(capsys.readouterr().out)["memory"]["death"]
    assert (death["file"], death["requested"]) == (str(job), 9000 * 3000 * 4)
    owners = {part["owner"]: part["bytes"] for part in death["parts"]}
    assert owners["parameters"] == 4 * (3000 * 3000 + 3000 + 10 * 3000 + 10)
    assert not any("[]" in text for text in death["largest"])


@pytest.mark.parametrize("error", [ValueError("out of memory"), None, RuntimeError("shapes")])
def test_other_errors_leave_nothing(tmp_path, monkeypatch, error):
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    out_of_memory._write_notes(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_accelerators_error_is_recognised():
    assert out_of_memory.is_out_of_memory(torch.OutOfMemoryError(CUDA))


def test_a_hosts_error_is_recognised():
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    with pytest.raises(MemoryError) as caught:
        numpy.empty(1 << 46)
    assert out_of_memory.is_out_of_memory(caught.value)
    assert out_of_memory.read_message(str(caught.value)) == {"requested": 1 << 49}


def test_sizes_are_read_from_the_message():
    assert out_of_memory.read_message(CUDA) == {
        "requested": 2 << 30,
        "capacity": round(79.1 * 2**30),
        "allocated": 70 << 30,
        "unused": 3 << 30,
    }
    assert out_of_memory.read_message("") == {}
