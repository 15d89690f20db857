"""The recent rows of a growing telemetry file read as the file itself does."""

from __future__ import annotations

from pathlib import Path

from whyidle.model.live.telemetry import Absent
from whyidle.model.live.telemetry_lines import (
    TelemetryWriter,
    header_line,
    read_telemetry,
    source_line,
)
from whyidle.record.live_state import RecentTelemetry

SECOND = 1_000_000_000


def write(path: Path, seconds: range, writer: TelemetryWriter) -> None:
    with path.open("ab") as file:
        for second in seconds:
            name = f"cpu_user_s@pid{second // 20}"  # processes come and go
            reading = {name: float(second), "cores_allowed": 4}
            file.write(writer.row_lines("host", second * SECOND, reading))


def test_the_last_half_minute_with_its_constants(tmp_path: Path):
    path, out, writer = tmp_path / "telemetry.jsonl", tmp_path / "recent.jsonl", TelemetryWriter()
    path.write_bytes(
        header_line(0, 7) + source_line("host", {"kernel": "6"}, {"io_wait_s": Absent("off")})
    )
    recent = RecentTelemetry(path)
    for begin in range(0, 200, 50):
        write(path, range(begin, begin + 50), writer)
        recent.read_appended()
    recent.write_to(out)
    telemetry = read_telemetry(out.read_bytes().splitlines(keepends=True))
    assert telemetry.lost == 0
    assert telemetry.offset_ns == 7
    assert telemetry.facts == {"kernel": "6"}
    assert telemetry.missing["io_wait_s"].reason == "off"
    cores = telemetry.series["cores_allowed"]
    assert (cores.time_ns[0], cores.time_ns[-1]) == (169 * SECOND, 199 * SECOND)
    assert set(telemetry.series) == {"cores_allowed", "cpu_user_s@pid8", "cpu_user_s@pid9"}


def test_half_a_line_waits_for_its_rest(tmp_path: Path):
    path, out, writer = tmp_path / "telemetry.jsonl", tmp_path / "recent.jsonl", TelemetryWriter()
    whole = header_line(0, 0) + writer.row_lines("host", SECOND, {"cores_allowed": 4})
    path.write_bytes(whole[:-5])
    recent = RecentTelemetry(path)
    recent.read_appended()
    with path.open("ab") as file:
        file.write(whole[-5:])
    recent.read_appended()
    recent.write_to(out)
    assert out.read_bytes() == whole


def test_no_telemetry_is_no_error(tmp_path: Path):
    recent = RecentTelemetry(tmp_path / "none")
    recent.read_appended()
    recent.write_to(tmp_path / "recent.jsonl")
    assert (tmp_path / "recent.jsonl").read_bytes() == b""
