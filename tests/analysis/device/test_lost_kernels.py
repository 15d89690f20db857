"""Launches without a kernel."""

import numpy as np
import pytest

from whyidle.analysis.device.lost_kernels import (
    captured_launches,
    find_incomplete,
    lost_launches,
    why_lost,
)
from whyidle.analysis.steps.step_detection import find_steps
from whyidle.testing.builder import Builder, us


def train(steps: int = 4, launches: int = 10) -> Builder:
    job = Builder()
    for _ in range(steps):
        with job.step():
            for _ in range(launches):
                job.op("aten::mm", kernels=[("gemm", us(100))])
            job.sync()
    return job


def lose(job: Builder, *numbers: int) -> Builder:
    """Without some kernels."""
    kernels = [event for event in job.events if event["cat"] == "kernel"]
    for number in numbers:
        job.events.remove(kernels[number])
    return job


def test_all_kernels_of_a_sound_recording_are_there():
    rows, lost = lost_launches(train().timeline())
    assert len(rows) == 40
    assert not lost.any()


@pytest.mark.parametrize(("numbers", "steady"), [((), 4), ((15,), 4), (range(10, 16), 3)])
def test_a_step_without_its_kernels_does_not_count(numbers, steady):
    steps = find_steps(lose(train(), *numbers).timeline())
    assert steps.steady.sum() == steady
    assert steps.left_out == 4 - steady


def test_the_first_step_is_no_warm_up_because_its_kernels_are_missing():
    steps = find_steps(lose(train(), *range(10)).timeline())
    assert steps.steady.tolist() == [False, True, True, True]
    assert steps.warm_up_count == 0


def test_a_captured_launch_makes_no_kernel():
    job = train(steps=1)
    job.runtime("cudaStreamBeginCapture", us(5))
    for number in range(20):
        job.runtime("cudaLaunchKernel", us(5), 1000 + number)
    job.runtime("cudaStreamEndCapture", us(5))
    job.op("aten::mm", kernels=[("gemm", us(100))])
    timeline = job.timeline()
    assert len(captured_launches(timeline)) == 20
    assert not lost_launches(timeline)[1].any()
    steps = find_steps(timeline)
    assert find_incomplete(timeline, *steps.on_host) is None


def test_a_capture_may_have_begun_before_the_recording():
    job = Builder()
    for number in range(20):
        job.runtime("cudaLaunchKernel", us(5), 1000 + number)
    job.runtime("cudaStreamEndCapture", us(5))
    job.op("aten::mm", kernels=[("gemm", us(100))])
    assert len(captured_launches(job.timeline())) == 20


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ("1111", "no kernel was recorded"),
        ("1100", "not yet recording"),
        ("0011", "ended before the device was done"),
        ("011011000", "buffers overflowed"),
    ],
)
def test_the_reason_follows_from_where_kernels_are_missing(lost, reason):
    assert reason in why_lost(np.array([mark == "1" for mark in lost]))
