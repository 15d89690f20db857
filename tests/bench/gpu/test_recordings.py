"""What stages record: telemetry that is kept, and traces whose accounts agree."""

import gzip
import json

import pytest

from bench.gpu.stages.telemetry import describe_recording, trim_recording

pytestmark = pytest.mark.real_processes("jobs and readers are processes of their own")

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
