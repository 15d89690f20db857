"""PyTorch's profiles of jobs on the device hold its kernels, joined to what launched them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from emulator import device as emulated
from emulator.device.device import Device
from whyidle.analysis.facts import Facts
from whyidle.readers import kineto


@pytest.fixture
def recorded(device: Device, tmp_path: Path) -> Facts:
    emulated.configure(peak_flops=1e8)
    model = torch.nn.Linear(32, 32).to("emulated")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, record_shapes=True) as profiler:
        for _ in range(4):
            loss = model(torch.randn(8, 32).to("emulated")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            profiler.step()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    return Facts(kineto.load(path))


def test_kernels_are_linked_to_operators(recorded: Facts):
    timeline = recorded.timeline
    names = [timeline.names[i] for i in timeline.device.name]
    assert any("gemm" in name for name in names)
    assert any("Memcpy HtoD" in name for name in names)
    linked = recorded.launching_op[recorded.kernels]
    assert (linked >= 0).mean() > 0.95
    by = {timeline.names[timeline.host.name[op]] for op in linked if op >= 0}
    assert "aten::addmm" in by
    assert timeline.info.name == "emulated accelerator"
    assert recorded.peak is not None
    assert recorded.peak.fp32 == 1e8


def test_no_operator_of_the_host_is_in_it(recorded: Facts):
    """Each product is one operator, not one of the device and one of the host within."""
    timeline = recorded.timeline
    products = [i for i in timeline.host.name if timeline.names[i] == "aten::addmm"]
    assert len(products) == 4


def test_times_are_the_devices(recorded: Facts):
    device = recorded.timeline.device
    gemms = [i for i in range(len(device)) if "gemm" in recorded.timeline.names[device.name[i]]]
    took = (device.end - device.start)[gemms]
    flops = 2 * 8 * 32 * 32 / 1e8 * 1e9
    assert (took >= flops).all()
    assert (took < 1.2 * flops + 50_000).all()
