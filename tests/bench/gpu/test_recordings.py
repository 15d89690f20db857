"""What stages record: telemetry that is kept, and traces whose accounts agree."""

import gzip
import json

import pytest

from bench.gpu.raw_trace import RawTrace
from bench.gpu.stages.attribution import compare_reading
from bench.gpu.stages.doctor import read_nvml
from bench.gpu.stages.telemetry import describe_recording, trim_recording
from bench.gpu.target import Target
from bench.gpu.twins import find_twin, run_twin
from whyidle.analysis.facts import Facts
from whyidle.readers import kineto

pytestmark = pytest.mark.real_processes("jobs and readers are processes of their own")
EMULATED = Target("emulated", "emulated device", 5.0)

RECORDED = [
    {"schema": "whyidle/telemetry/1", "clock_ns": 0, "unix_ns": 10},
    {
        "source": "nvml",
        "facts": {"driver": "570", "uuid@gpu0": "GPU-secret", "card_uuid@gpu0.mig1": "GPU-secret"},
        "missing": {},
    },
    {"source": "host", "facts": {"hostname": "secret"}, "missing": {}},
    {"columns": 0, "source": "host", "keys": ["load"]},
    [0, 100, 7.0],
    {"columns": 1, "source": "nvml", "keys": ["power_w@gpu0"]},
    [1, 110, 500.0],
    [1, 120, None],
    [1, 130, 700.0],
]


def test_a_recording_is_trimmed_to_the_device_and_says_not_which(tmp_path):
    lines = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in RECORDED)
    text = trim_recording(lines)
    assert b"secret" not in text
    path = tmp_path / "kept.jsonl.gz"
    path.write_bytes(gzip.compress(text))
    kept = describe_recording(path)
    assert kept["means"] == {"power_w@gpu0": 600.0}
    assert (kept["moments"], kept["lost_lines"]) == (2, 0)
    assert len(trim_recording(lines, most=len(text) - 1)) < len(text)


def test_readings_of_imitated_nvml_are_kept_and_replayed(tmp_path):
    file = tmp_path / "telemetry.jsonl"
    result = read_nvml(EMULATED, file, reads=2)
    assert result["imitated"]
    assert "sm_active_ratio" in result["gpm_signals"]
    assert not any("uuid" in name for name in result["facts"])
    kept = tmp_path / "kept.jsonl"
    kept.write_bytes(trim_recording(file.read_bytes()))
    replayed = describe_recording(kept)
    assert (replayed["moments"], replayed["lost_lines"]) == (2, 0)
    assert replayed["means"]["busy_ratio@gpu0"] == 0.97


def test_the_accounts_of_a_traced_job_agree(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "trace.json"
    run_twin(
        EMULATED,
        find_twin("compute-bound"),
        profile=None,
        environment={"STEP_TRACE": str(path), "STEP_TRACE_STEPS": "4"},
        seconds=3.0,
    )
    raw = RawTrace.read(path)
    assert raw.steps == 4
    reading = compare_reading(Facts(kineto.load(path)), raw)
    assert reading["steps"] >= 1
    assert reading["work_ratio_whyidle"] == pytest.approx(reading["work_ratio_cupti"], abs=0.001)
    assert 0 < reading["kernel_ratio_cupti"] <= reading["work_ratio_cupti"] <= 1
