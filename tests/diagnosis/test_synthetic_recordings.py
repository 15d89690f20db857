"""Synthetic recordings of kinds that public ones have, and what is true of each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from whyidle.errors import NotATraceError
from whyidle.model.diagnosis import Diagnosis
from whyidle.recordings.explain import explain_paths

CASES = Path(__file__).parent


@cache
def diagnose(name: str) -> Diagnosis:
    return explain_paths([next(CASES.glob(f"*_cases/{name}.*"))]).diagnosis


def causes(name: str) -> list[str]:
    return [finding.cause for finding in diagnose(name).findings if finding.severity != "info"]


def test_scalars_of_a_fused_optimizer_are_not_its_precision():
    assert "double-precision" not in causes("fused_adam")
    assert diagnose("fused_adam").verdict.state == "saturated"


def test_time_before_the_first_kernel_counts():
    found = diagnose("loader_before_first_kernel")
    assert found.attribution.input > 0.95
    assert found.run.duration_s > 5
    assert (found.verdict.state, found.verdict.bound) == ("starved", "input")


def test_waiting_for_a_result_is_no_launching():
    found = diagnose("waits_for_result")
    assert found.attribution.sync > 0.9
    assert (found.verdict.state, found.verdict.bound) == ("starved", "sync")
    assert "launch-bound-small-kernels" not in causes("waits_for_result")


def test_transport_on_side_streams_of_an_npu_is_communication():
    found = diagnose("hccl_on_side_streams")
    assert found.attribution.communication > 0.75
    assert found.attribution.compute < 0.15


def test_a_cold_start_explains_all_of_its_bar():
    found = diagnose("cold_start")
    assert causes("cold_start") == ["compile-autotune-warmup"]
    assert found.findings[0].lost.high > 0.95 * found.attribution.interruption > 0.9


def test_a_snapshot_at_an_error_of_memory_says_so_first():
    headline = diagnose("out_of_memory").verdict.headline
    assert headline.startswith("Out of memory on device 0: 1.07 GB was asked for, 0.00105 GB")
    assert "8.59 GB was reserved" in headline
    assert "100% of the peak from train.py:7" in headline


def test_the_peak_is_one_number():
    found = diagnose("memory_churn")
    assert found.utilization.memory_peak_bytes == 402_653_184
    assert any("had 0.403 GB in use" in note for note in found.coverage.notes)


@pytest.mark.parametrize("name", ["legacy_on_gpu", "apple_gpu"])
def test_operators_of_a_gpu_are_no_work_of_the_cpu(name):
    found = diagnose(name)
    assert found.verdict.state == "inconclusive"
    assert found.attribution.unknown == 1.0


@pytest.mark.parametrize("name", ["convolutions_beside_gpu", "products_beside_gpu"])
def test_work_on_the_cpu_beside_an_idle_gpu_is_one_statement(name):
    found = diagnose(name)
    assert found.verdict.headline == "The work runs on the CPU while NVIDIA A100-SXM4-40GB is idle"
    assert causes(name) == ["training-on-cpu"]


def test_a_legacy_recording_tells_how_to_see_the_gpu():
    assert "record with torch.profiler" in diagnose("legacy_on_gpu").verdict.headline


def test_a_short_child_does_not_erase_the_operator_around_it():
    assert diagnose("legacy_nested").utilization.busy > 0.95


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("horovod_timeline", "Horovod"),
        ("compiler_events", "torch.compile"),
        ("tensorflow_1_timeline", "TensorFlow 1"),
    ],
)
def test_a_timeline_of_another_tool_is_refused_by_name(name, tool):
    with pytest.raises(NotATraceError, match=tool) as caught:
        diagnose(name)
    assert caught.value.hint


def test_layers_inside_one_call_are_no_steps():
    found = diagnose("layers_of_an_engine")
    assert found.steps.detected_by is None
    assert found.verdict.state == "saturated"


def test_an_empty_last_step_makes_no_warm_up():
    steps = diagnose("empty_last_step").steps
    assert (steps.count, steps.warmup) == (1, 0)
