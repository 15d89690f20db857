"""Meters: columns and units as people have them, Prometheus' answers, and broken files."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet_contracts import check_meter
from whyidle.cluster.meters import csv, nvidia_smi, parquet, prometheus
from whyidle.cluster.report import series, tables
from whyidle.errors import InputError
from whyidle.model.fleet_rows import MeterTable, Window

ALL = Window(0, 4_000_000_000_000)
SMI = (
    "+---------------------------------------+\n| NVIDIA-SMI 495.44 |\n"
    "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]\n"
    "2026/11/20 00:00:00.000, 0, 80 %, 10463 MiB, 32510 MiB, 250.10 W\n"
    "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]\n"
    "2026/11/20 00:00:30.000, 0, [N/A], 10463 MiB, 32510 MiB, [N/A]\n\0\0\0\0\0\n"
)


def rows(table: MeterTable, work: Path, columns: str) -> list[tuple]:
    connection = tables.connect(work)
    series.prepare_readings(connection, [table], work, ALL)
    return tables.run_query(connection, f"SELECT {columns} FROM readings ORDER BY ALL")


def test_csv_knows_columns_units_and_times(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text(
        "Timestamp;Hostname;GPU;GPU_I_ID;DCGM_FI_DEV_GPU_UTIL;DCGM_FI_DEV_FB_USED;pod;namespace\n"
        "2026-11-20T00:00:00Z;gpu7.cluster:9400;0;3;50;1024;p;n\n"
        "1795132860;10.1.2.3:9400;1;;100;2048;;\n"
    )
    table = check_meter(csv, str(path), ALL, tmp_path)
    assert rows(table, tmp_path, "time_ms, node, gpu, busy, memory_bytes, job, owner") == [
        (1_795_132_800_000, "gpu7", "0/3", 0.5, 1 << 30, "p", "n"),
        (1_795_132_860_000, "10.1.2.3", "1", 1.0, 2 << 30, None, None),
    ]


def test_a_file_of_one_metric_is_known_by_its_name(tmp_path: Path):
    for name, value in (("pod_gpu_duty_cycle", 25), ("pod_gpu_memory_used_bytes", 1 << 30)):
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as file:
            file.write(f"value,timestamp_anon,container_ip\n{value},1662858720.0,c1\n")
    table = check_meter(csv, str(tmp_path), ALL, tmp_path / "..")
    assert rows(table, tmp_path, "busy, memory_bytes, job") == [
        (0.25, None, "c1"), (None, 1 << 30, "c1"),
    ]  # fmt: skip


def test_parquet_is_read_in_place(tmp_path: Path):
    path = tmp_path / "it's.parquet"
    duckdb.connect().execute(
        f"COPY (SELECT TIMESTAMPTZ '2026-11-20 00:00:00Z' AS time, 'n1' AS node, 0 AS gpu, "
        f"0.5 AS busy, 7 AS memory_bytes) TO '{str(path).replace(chr(39), chr(39) * 2)}'"
    )
    table = check_meter(parquet, str(path), ALL, tmp_path)
    assert table.is_parquet
    assert rows(table, tmp_path, "time_ms, node, gpu, busy") == [
        (1_795_132_800_000, "n1", "0", 0.5)
    ]


def test_logs_of_nvidia_smi(tmp_path: Path):
    (tmp_path / "node3.log").write_text(SMI)
    table = check_meter(nvidia_smi, str(tmp_path / "node3.log"), ALL, tmp_path)
    known = rows(table, tmp_path, "node, gpu, busy, memory_bytes, power_w")
    assert known[0] == ("node3", "0", pytest.approx(0.8), 10463 << 20, pytest.approx(250.1))
    named = nvidia_smi.read(f"gpu9={tmp_path / 'node3.log'}", ALL, tmp_path, print)
    assert {row[0] for row in rows(named, tmp_path, "node")} == {"gpu9"}
    (tmp_path / "old.log").write_text(SMI.replace("timestamp, ", ""))
    with pytest.raises(InputError, match="no timestamps"):
        nvidia_smi.read(str(tmp_path / "old.log"), ALL, tmp_path, print)


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """A Prometheus with two hosts: its address, and the range queries that it got."""
    asked: list[dict[str, list[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            values = parse_qs(parts.query)
            data: object = []
            if parts.path.endswith("/__name__/values"):
                data = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "up"]
            elif parts.path.endswith("/Hostname/values"):
                data = ["n1", 'n.2"']
            elif parts.path.endswith("/query_range"):
                asked.append(values)
                start = float(values["start"][0])
                labels = {"Hostname": "n1.x", "gpu": "0", "job": "dcgm", "hpc_job": "7"}
                points = [[start, "0.5"], [start + 60, "NaN"]]
                data = {"resultType": "matrix", "result": [{"metric": labels, "values": points}]}
            elif self.headers.get("Authorization") == "Bearer wrong":
                data = None
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"status": "success", "data": data}).encode())

        def log_message(self, *_: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_address[1]}", asked
    running.shutdown()
    running.server_close()


def test_prometheus_is_asked_by_day_and_host_and_once(server, tmp_path: Path):
    address, asked = server
    window = Window(1_795_132_800_000 - 3_600_000, 1_795_132_800_000 + 3_600_000)
    table = check_meter(prometheus, address, window, tmp_path)
    assert len(asked) == 2  # two days, and the second reading used what was kept
    query = asked[0]["query"][0]
    assert query.startswith("avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{Hostname=~")
    assert " or avg_over_time(DCGM_FI_DEV_GPU_UTIL{" in query
    assert query.endswith("[60s]) * 0.01")
    assert 'n1|n\\\\.2\\"' in query
    assert rows(table, tmp_path, "node, gpu, job, busy")[0] == ("n1", "0", "7", 0.5)
    assert "no GPU memory" in table.notes[0]
    with pytest.raises(InputError, match="needs a time window"):
        prometheus.read(address, ALL, tmp_path, print)
    with pytest.raises(InputError, match="does not answer"):
        prometheus.read("http://127.0.0.1:9", window, tmp_path, print)
    for wrong in ("prom:9090", address + "?step=0"):
        with pytest.raises(InputError):
            prometheus.read(wrong, window, tmp_path, print)


@pytest.mark.parametrize("name", ["none.csv", "empty.csv", "words.csv", "folder.csv"])
def test_unusable_files_are_refused(name: str, tmp_path: Path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "words.csv").write_text("colour,taste\nred,sweet\n")
    (tmp_path / "folder.csv").mkdir()
    for meter in (csv, parquet, nvidia_smi):
        with pytest.raises(InputError):
            meter.read(str(tmp_path / name), ALL, tmp_path, print)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_odd_content_is_counted_or_refused(content: bytes, tmp_path: Path):
    path = tmp_path / "odd.csv"
    path.write_bytes(b"time,node,gpu,busy,memory_bytes\n1795132800,n1,0,0.5,7\n" + content)
    table = csv.read(str(path), ALL, tmp_path, print)
    try:
        found = rows(table, tmp_path, "busy, memory_bytes")
    except InputError as error:
        assert error.why  # noqa: PT017  # either is right
    else:
        assert (0.5, 7) in found or len(found) <= 1 + content.count(b"\n") + content.count(
            b"\r"
        ) + 1
