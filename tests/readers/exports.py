"""Exports of Nsight Systems as its versions write them, for the tests of this folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EPOCH_NS = 1_700_000_000_000_000_000
MS = 1_000_000
KERNEL, COPY, CALL = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "RUNTIME"))
NVTX, OS_CALLS = "NVTX_EVENTS", "OSRT_API"
Rows = Sequence[Mapping[str, Any]]


def global_id(process: int, thread: int = 0) -> int:
    """Hardware, virtual machine, process and thread in one number, as the tool writes it."""
    return (1 << 56) | (process << 24) | thread


class ExportWriter:
    """The tables of an export; texts become string ids."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self._texts: dict[str, int] = {}
        self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH_NS)

    def text(self, value: str) -> int:
        return self._texts.setdefault(value, len(self._texts) + 1)

    def add(self, table: str, **row: Any) -> ExportWriter:
        self.tables.setdefault(table, []).append(row)
        return self

    def write(self, path: Path) -> Path:
        texts = [{"id": key, "value": text} for text, key in self._texts.items()]
        with sqlite3.connect(path) as database:
            for table, rows in {**self.tables, "StringIds": texts}.items():
                columns = list(dict.fromkeys(key for row in rows for key in row)) or ["id"]
                database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
                marks = ", ".join("?" * len(columns))
                listed = [[row.get(column) for column in columns] for row in rows]
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", listed)
        database.close()
        return path


def job(*processes: int, steps: int = 6, old: bool = False) -> ExportWriter:
    """Steps of 10 ms: 2 ms of data loading, a copy, then a kernel of 5 ms. Processes have the same
    correlation ids. ``old`` as 2022 wrote it: each call twice, no class of calls of its own."""
    export = ExportWriter()
    export.add("EXPORT_META_DATA" if old else "META_DATA_EXPORT", name="EXPORT_VERSION", value="1")
    gpu = {"name": "NVIDIA A100-SXM4-40GB", "totalMemory": 40 << 30, "smCount": 108}
    export.add("TARGET_INFO_GPU", id=0, computeMajor=8, computeMinor=0, **gpu)
    for process in processes or (41,):
        for i in range(steps):
            _add_step(export, process, i, old=old)
    return export


def _add_step(export: ExportWriter, process: int, i: int, *, old: bool) -> None:
    at, link, thread = i * 10 * MS, 2 * i + 1, global_id(process, process + 1)
    device = {"deviceId": 0, "globalPid": global_id(process)}
    copied, worked = at + 22 * MS // 10, at + 4 * MS
    export.add(
        COPY, start=copied, end=copied + MS // 10, streamId=13, correlationId=link, bytes=4096,
        copyKind=1, srcKind=1, dstKind=2, **device,
    )  # fmt: skip
    name = export.text("ampere_sgemm_128x64_tn")
    export.add(
        KERNEL, start=worked, end=worked + 5 * MS, streamId=7, correlationId=link + 1,
        demangledName=name, shortName=name, gridX=54, gridY=2, gridZ=1, **device,
    )  # fmt: skip
    for offset, call, number in (
        (2.1, "cudaMemcpyAsync_v3020", 0),
        (3, "cudaLaunchKernel_v7000", 1),
    ):
        start = at + int(offset * MS)
        for kind in (0, 67) if old else (0,):
            export.add(
                CALL, start=start, end=start + MS // 10, eventClass=kind, globalTid=thread,
                correlationId=link + number, nameId=export.text(call),
            )  # fmt: skip
    _add_range(export, thread, f"iteration {i}", at, 10 * MS)
    _add_range(export, thread, "load_data", at, 2 * MS)
    _add_range(export, thread, "optimizer step", at + 9 * MS, MS)


def _add_range(export: ExportWriter, thread: int, name: str, start: int, length: int) -> None:
    """Names of ranges stand in the row or among the strings."""
    text = {"text": name} if start % (20 * MS) else {"textId": export.text(name)}
    export.add(NVTX, start=start, end=start + length, eventType=59, globalTid=thread, **text)
