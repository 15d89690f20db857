"""Recordings read again: our own, and logs of nvidia-smi."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from whyidle.errors import InputError, NotATraceError
from whyidle.machine.sources import replay
from whyidle.model.live import telemetry_lines
from whyidle.model.live.telemetry import Absent, Target

TABLE = """Wed Dec  8 17:10:31 2021
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 495.44       Driver Version: 495.44       CUDA Version: 11.5     |
|   0  Tesla V100-SXM2...  On   | 00000000:16:00.0 Off |                    0 |
+-----------------------------------------------------------------------------+
"""
HEADER = "index, name, memory.used [MiB], temperature.gpu, utilization.gpu [%], power.draw [W]\n"


def load(tmp_path, text, name="log.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return replay.load(path)


def test_log_below_a_table_with_nul_runs(tmp_path):
    rows = (
        "0, V100, 4142 MiB, 56, 97 %, 212.5 W\n\0\0\0\n\0\0\0" + "0, V100, 0 MiB, 35, 0 %, 40 W\n"
    )
    told = load(tmp_path, TABLE + HEADER + rows)
    assert told.series["busy_ratio@gpu0"].value.tolist() == [0.97, 0.0]
    assert told.series["memory_used_bytes@gpu0"].value.tolist() == [4142 * 2**20, 0]
    assert told.series["power_w@gpu0"].value.tolist() == [212.5, 40]
    assert told.facts["name@gpu0"] == "V100"
    assert told.facts["times"].startswith("assumed")
    assert (told.offset_ns, told.lost) == (None, 0)


def test_fields_that_are_not_there_are_left_out(tmp_path):
    rows = "0, V100, [N/A], 56, [Not Supported], 212.5 W\n0, V100, 1 MiB, ERR!, 101 %, 1e3 W\n"
    told = load(tmp_path, HEADER + rows)
    assert "busy_ratio@gpu0" not in told.series
    assert told.series["temperature_c@gpu0"].value.tolist() == [56]
    assert told.series["memory_used_bytes@gpu0"].time_ns.tolist() == [10**9]
    assert told.series["power_w@gpu0"].value.tolist() == [212.5]


def test_rows_that_were_cut_are_counted(tmp_path):
    told = load(
        tmp_path, HEADER + "0, V100, 1 MiB, 5\n0, V100, 1 MiB, 56, 3 %, 9 W\n" + HEADER + "0, V"
    )
    assert told.lost == 2
    assert told.series["busy_ratio@gpu0"].value.tolist() == [0.03]


def test_several_gpus_of_one_moment_are_one_read(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "timestamp,gpu_index,temperature_C,utilization_gpu_percent,power_W\n"
        "2025-09-24T02:57:03.946Z,0, 42, 100, 390.78\n"
        "2025-09-24T02:57:03.946Z,1, 61, 99, 422.67\n"
        "2025-09-24T02:57:04.225Z,0, 43, 98, 390.82\n"
    )
    reader = replay.open(Target(recording=path))
    first = reader.read()
    assert (first["power_w@gpu0"], first["busy_ratio@gpu1"]) == (390.78, 0.99)
    assert reader.read() == {
        "temperature_c@gpu0": 43,
        "busy_ratio@gpu0": 0.98,
        "power_w@gpu0": 390.82,
    }
    assert reader.clock_ns == 279_000_000
    assert reader.read() == {}
    assert reader.offset_ns == 1758682623946 * 10**6
    reader.close()


def test_our_own_telemetry(tmp_path):
    columns = telemetry_lines.TelemetryWriter()
    lines = [
        telemetry_lines.header_line(5, 1005),
        telemetry_lines.source_line(
            "nvml", {"name@gpu0": "H100"}, {"power_w": Absent("no", "buy one")}
        ),
        columns.row_lines("nvml", 10, {"busy_ratio@gpu0": 0.5, "power_w@gpu0": None}),
        columns.row_lines("host", 11, {"load_1min": 2.0}),
        columns.row_lines("nvml", 12, {"busy_ratio@gpu0": 0.75, "power_w@gpu0": 3}),
    ]
    told = load(tmp_path, gzip.compress(b"".join(lines)), "run.jsonl.gz")
    assert told.series["busy_ratio@gpu0"].time_ns.tolist() == [10, 12]
    assert told.series["power_w@gpu0"].value.tolist() == [3]
    assert told.facts == {"name@gpu0": "H100"}
    assert told.missing == {"power_w": Absent("no", "buy one")}
    assert told.offset_ns == 1000
    assert set(told.series_of("busy_ratio")) == {"gpu0"}


def test_a_gzip_file_that_was_cut_ends_there(tmp_path):
    text = HEADER + "".join(f"0, V100, {i} MiB, 56, {i % 101} %, 9 W\n" for i in range(3000))
    packed = gzip.compress(text.encode())
    told = load(tmp_path, packed[: len(packed) // 2], "cut.csv.gz")
    assert 100 < len(told.series["busy_ratio@gpu0"].value) < 3000


@pytest.mark.parametrize("content", [b"", b"epoch 1\n", b"a, b\n1, 2\n", b"\x1f\x8bnonsense"])
def test_what_is_no_telemetry(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    assert isinstance(replay.probe(Target(recording=path)), Absent)
    with pytest.raises(NotATraceError, match="not telemetry"):
        replay.load(path)


def test_nothing_to_replay(tmp_path):
    assert isinstance(replay.probe(), Absent)
    with pytest.raises(InputError):
        replay.open(Target())
    with pytest.raises(InputError, match="Cannot read"):
        replay.open(Target(recording=tmp_path / "none"))


SHARED = Path(os.environ.get("WHYIDLE_TRACES", Path(__file__).parents[4] / "shared/traces"))


@pytest.mark.skipif(not (SHARED / "telemetry").is_dir(), reason="no shared telemetry here")
@pytest.mark.parametrize(
    ("name", "mean", "idle"),
    [
        ("dfcbb99", 0.91, 0.0),
        ("d64460f", 0.50, 0.47),
        ("1695668", 0.78, 0.18),  # has runs of NUL bytes
        ("1e6808e", 0.94, 0.02),
        ("043da19", 0.65, 0.33),
    ],
)
def test_recorded_v100_logs(name, mean, idle):
    told = replay.load(SHARED / f"telemetry/nvidia_smi_v100_{name}.csv.gz")
    busy = told.series["busy_ratio@gpu0"].value
    assert busy.mean() == pytest.approx(mean, abs=0.006)
    assert (busy == 0).mean() == pytest.approx(idle, abs=0.006)
    assert told.lost == 0


@pytest.mark.skipif(not (SHARED / "telemetry").is_dir(), reason="no shared telemetry here")
def test_recorded_log_of_eight_gpus():
    told = replay.load(SHARED / "telemetry/nanogpt_8gpu_a.csv.gz")
    heat = {gpu: series.value.mean() for gpu, series in told.series_of("temperature_c").items()}
    assert len(heat) == 8
    assert 14 < heat["gpu1"] - np.median(list(heat.values())) < 23
    seconds = np.diff(told.series["power_w@gpu0"].time_ns) / 1e9
    assert np.median(seconds) == pytest.approx(0.3, abs=0.03)
