"""NVML telemetry of a command, from the files of its recording to the diagnosis."""

import pytest
from imagined import BEGIN, MS, Imagined, S

from whyidle.testing.contracts import check_bounds, check_round_trip

GPU = {
    "busy_ratio@gpu0": 0.95,
    "processes@gpu0": 1,
    "memory_used_bytes@gpu0": 40e9,
    "memory_total_bytes@gpu0": 80e9,
    "process_memory_bytes@gpu0.pid7": 40e9,
    "clock_sm_mhz@gpu0": 1980.0,
    "clock_sm_max_mhz@gpu0": 1980.0,
    "clock_reasons@gpu0": 0,
    "power_limit_w@gpu0": 700.0,
    "power_limit_default_w@gpu0": 700.0,
    "temperature_c@gpu0": 60.0,
    "sm_active_ratio@gpu0": 0.7,
    "pcie_lanes@gpu0": 16,
    "pcie_lanes_max@gpu0": 16,
    "pcie_generation@gpu0": 5,
    "pcie_generation_max@gpu0": 5,
    "pcie_received_bytes@gpu0": (0.2e9, 0.0),
    "pcie_sent_bytes@gpu0": (0.01e9, 0.0),
    "cpu_user_s@pid7": (1.0, 0.0),
    "cores_effective": 16.0,
}
GIB = 1 << 30
ALLOCATOR = {
    "allocated_peak_bytes": 40 * GIB,
    "device_bytes": 80 * GIB,
    "reads": [[BEGIN + 2 * S + i * S, i * 50, 0] for i in range(10)],
}
FULL = {**ALLOCATOR, "allocated_peak_bytes": 76 * GIB}
FLUSHING = {**ALLOCATOR, "reads": [[BEGIN + 2 * S + i * S, i * 50, i * 40] for i in range(10)]}
OTHER = {"process_memory_bytes@gpu0.pid9": 1e9, "process_busy_ratio@gpu0.pid9": 0.4}

SICK = {
    "gpu-contention": (OTHER, {}),
    "gpu-too-big-for-job": ({"sm_active_ratio@gpu0": 0.1, "memory_used_bytes@gpu0": 4e9}, {}),
    "thermal-throttle": (
        {"clock_reasons@gpu0": 0x20, "clock_sm_mhz@gpu0": 1200.0, "temperature_c@gpu0": 91.0},
        {},
    ),
    "power-or-clock-cap": (
        {"clock_reasons@gpu0": 0x4, "clock_sm_mhz@gpu0": 1200.0, "power_limit_w@gpu0": 400.0},
        {},
    ),
    "pcie-or-nvlink-degraded": ({"pcie_lanes@gpu0": 1}, {}),
    "memory-capacity-bound": ({"busy_ratio@gpu0": 0.5}, {"allocator": FULL}),
    "allocator-thrash": ({"busy_ratio@gpu0": 0.5}, {"allocator": FLUSHING}),
}
STEPLESS = ("gpu-contention", "gpu-too-big-for-job", "thermal-throttle", "power-or-clock-cap")


def trained(folder, values, **facts):
    made = Imagined(folder, **{"device": "cuda", "allocator": ALLOCATOR, **facts})
    for _ in range(500):
        made.step(20 * MS)
    made.trained()
    made.telemetry({**GPU, **values}, facts={"cuda_ordinal@gpu0": "0"})
    diagnosis = made.diagnose()
    check_bounds(diagnosis)
    check_round_trip(diagnosis)
    return diagnosis


@pytest.mark.parametrize("cause", SICK)
def test_found_in_a_job_that_trains_on_the_gpu(tmp_path, cause):
    values, facts = SICK[cause]
    diagnosis = trained(tmp_path, values, **facts)
    assert diagnosis.findings[0].cause == cause, [one.cause for one in diagnosis.findings]
    assert diagnosis.findings[0].evidence
    assert {"gpu_telemetry", "own_process"} <= set(diagnosis.coverage.signals)


def test_a_healthy_gpu_is_not_blamed(tmp_path):
    assert trained(tmp_path, {}).findings == []


@pytest.mark.parametrize("cause", STEPLESS)
def test_found_in_a_command_without_steps(tmp_path, cause):
    made = Imagined(tmp_path)
    made.telemetry({**GPU, **SICK[cause][0]}, end=BEGIN + 30 * S)
    diagnosis = made.diagnose(["./trainer"])
    check_bounds(diagnosis)
    proven = any(finding.severity != "info" for finding in diagnosis.findings)
    assert diagnosis.verdict.state == ("inefficient" if proven else "inconclusive")
    assert [one.cause for one in diagnosis.findings] == [cause]
    assert diagnosis.utilization.gpu_util == pytest.approx(0.95)


def test_gpus_that_a_command_without_steps_never_used(tmp_path):
    idle = {"busy_ratio": 0.0, "processes": 0}
    values = {f"{name}@gpu{i}": value for i in range(2) for name, value in idle.items()}
    made = Imagined(tmp_path)
    made.telemetry({**values, "cpu_user_s@pid7": (1.0, 0.0)}, end=BEGIN + 30 * S)
    diagnosis = made.diagnose(["./prepare"])
    assert diagnosis.findings[0].cause == "idle-allocated-gpu"
    assert diagnosis.findings[0].severity != "info"
    assert "None of the 2 visible GPUs" in diagnosis.verdict.headline


def on_the_cpu(folder, values=None, **facts):
    made = Imagined(folder, **facts)
    for _ in range(200):
        made.step(20 * MS)
    made.trained()
    made.telemetry(values or {"cpu_user_s@pid7": (1.0, 0.0)})
    return made.diagnose()


@pytest.mark.parametrize(
    ("values", "facts", "why"),
    [
        (
            {"busy_ratio@gpu0": 0.0, "processes@gpu0": 0},
            {"cuda_built": "12.8"},
            "does not move",
        ),
        (None, {"gpus": ["0000:01:00.0"], "cuda_built": None}, "built without CUDA"),
        (
            None,
            {
                "gpus": ["0000:01:00.0"],
                "cuda_built": "12.8",
                "environment": {"CUDA_VISIBLE_DEVICES": ""},
            },
            "hides them",
        ),
    ],
)
def test_training_on_the_cpu_beside_a_gpu(tmp_path, values, facts, why):
    diagnosis = on_the_cpu(tmp_path, values, **facts)
    first = diagnosis.findings[0]
    assert first.cause == "training-on-cpu"
    assert why in first.headline
    assert first.lost.high == pytest.approx(0.95 * diagnosis.attribution.compute, rel=0.01)


def test_on_a_machine_without_a_gpu_nobody_nags(tmp_path):
    assert on_the_cpu(tmp_path, cuda_built=None).findings == []


def test_a_link_that_was_read_while_the_gpu_was_idle_is_not_degraded(tmp_path):
    slow = SICK["pcie-or-nvlink-degraded"][0]
    idle = {**slow, "busy_ratio@gpu0": 0.0}
    assert "pcie-or-nvlink-degraded" not in {one.cause for one in trained(tmp_path, idle).findings}
