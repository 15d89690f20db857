"""What a job sees of the device, through PyTorch. Times are the device's own, which no load of the
machine changes; of the host only orders are asked."""

from __future__ import annotations

import time

import pytest
import torch

from emulator import device as emulated
from emulator.device.device import Device
from emulator.device.stream import Cost

pytestmark = pytest.mark.real_processes("the emulated device works by the clock")


def busy_ns(device: Device, since: int) -> int:
    return sum(
        each.end - max(each.begin, since)
        for some in device.record.busy.values()
        for each in some
        if each.end > since
    )


def test_the_host_returns_before_the_device_ends(device: Device):
    done = torch.emulated.Event()
    emulated.spend(300)
    done.record()
    assert not done.query()


def test_events_tell_the_time_of_the_device(device: Device):
    first, last = (torch.emulated.Event(enable_timing=True) for _ in range(2))
    emulated.spend(1)
    first.record()
    for _ in range(5):
        emulated.spend(2)
    last.record()
    torch.emulated.synchronize()
    assert first.elapsed_time(last) >= 10
    assert device.default.tail <= time.perf_counter_ns()


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: bool(x.sum() > 0),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        repr,
    ],
)
def test_a_read_drains_the_stream(device: Device, read):
    values = torch.ones(3, device="emulated")
    emulated.spend(20)
    ends = device.default.tail
    read(values)
    assert time.perf_counter_ns() >= ends


def test_what_only_looks_does_not_wait_and_costs_nothing(device: Device):
    values = torch.ones(4, 4, device="emulated")
    emulated.spend(200)
    ends = device.default.tail
    assert values.view(16).t().shape == (16,)
    assert values[1:].device.type == "emulated"
    assert device.default.tail == ends


def test_the_queue_is_bounded(device: Device):
    emulated.configure(queue=8, launch_ns=0)
    begun = time.perf_counter_ns()
    for _ in range(9):
        device.launch(Cost("compute", 5_000_000), begun)
    first = min(each.begin for each in device.record.busy[0] if each.begin >= begun)
    assert time.perf_counter_ns() >= first + 5_000_000
    assert device.record.blocked[-1].why == "queue full"


def test_a_launch_costs_the_host_what_was_set(device: Device):
    emulated.configure(launch_ns=2_000_000)
    begun = time.perf_counter_ns()
    emulated.spend(0.001)
    assert time.perf_counter_ns() - begun >= 2_000_000


def test_work_takes_a_time_linear_in_the_batch(device: Device):
    layer = emulated.Work(4, per_sample_ms=0.5)
    took = {}
    for batch in (2, 4, 8):
        values = torch.ones(batch, 3, device="emulated", requires_grad=True)
        before = device.record.launches
        begun = device.mark()
        layer(values)
        took[batch] = device.default.tail - max(begun, device.record.busy[0][-1].begin)
        assert device.record.launches == before + 1
    assert took[4] - took[2] == pytest.approx(1e6, abs=1)
    assert took[8] - took[4] == pytest.approx(2e6, abs=1)


def test_no_tensor_of_the_host_slips_in():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="emulated") + torch.ones(3)
    assert (torch.ones(3, device="emulated") + torch.tensor(1.0)).tolist() == [2, 2, 2]


def test_streams_overlap_and_wait_for_each_other(device: Device):
    side = torch.emulated.Stream()
    emulated.spend(5)
    with torch.emulated.stream(side):
        emulated.spend(5)
    assert side.queue.tail - device.default.tail < 5_000_000
    torch.emulated.current_stream().wait_stream(side)
    emulated.spend(1)
    assert device.default.tail >= side.queue.tail + 1_000_000


def test_two_devices_train_side_by_side():
    emulated.configure(devices=2)
    linear = torch.nn.Linear(3, 3).to("emulated:1")
    linear(torch.ones(2, 3, device="emulated:1")).sum().backward()
    assert linear.weight.grad.device == torch.device("emulated", 1)
    assert linear.weight.grad.to("emulated:0").tolist() == linear.weight.grad.tolist()
    with torch.emulated.device(1):
        assert torch.ones(1, device="emulated").device.index == 1
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(1, device="emulated:0") + torch.ones(1, device="emulated:1")


def test_convolutions_are_searched_once_for_each_shape(device: Device, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # no kernel turns tensors
    emulated.configure(algorithms=5, untuned=2.0, peak_flops=1e9)
    weight = torch.rand(4, 4, 3, 3).to("emulated")
    took = []
    for size in (16, 16, 17):
        x = torch.rand(2, 4, size, size).to("emulated")
        torch.emulated.synchronize()
        before = time.perf_counter_ns()
        torch.nn.functional.conv2d(x, weight)
        torch.emulated.synchronize()
        took.append(busy_ns(device, before))
    assert took[0] == pytest.approx(6 * took[1], rel=0.01)
    assert took[2] > 5 * took[1]
    torch.backends.cudnn.benchmark = False
    before = time.perf_counter_ns()
    torch.nn.functional.conv2d(x, weight)
    torch.emulated.synchronize()
    assert busy_ns(device, before) == pytest.approx(took[2] / 3, rel=0.01)
