"""GPU work in an Nsight Systems export: kernels, CUDA graphs, copies and sets."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import DeviceInfo, DeviceKind
from whyidle.readers._events.event_rows import EventRows
from whyidle.readers.nsys.sqlite_file import Database

I64 = NDArray[np.int64]
_KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRAPH: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_SET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
_EVENT: Final = {"start": 0, "end": 0, "deviceId": 0, "streamId": -1, "correlationId": -1}
_BLOCKS: Final = {"gridX": 1, "gridY": 1, "gridZ": 1}
_COPIES: Final = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
"""CUPTI's kinds of copies; schema versions before 3 lack the table of their names"""
_MEMORY: Final = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
_MOST_DEVICES: Final = 1 << 15


def add_device(database: Database, rows: EventRows, process: int | None) -> I64:
    """Append the GPU work of a process. Returns the devices that it used, the busiest first."""
    numbers = [
        _add_kernels(database, rows, process),
        _add_named(database, rows, process, _GRAPH, "CUDA graph"),
        _add_copies(database, rows, process),
        _add_named(database, rows, process, _SET, "Memset (Device)"),
    ]
    devices, counts = np.unique(np.concatenate(numbers), return_counts=True)
    return devices[np.argsort(-counts, kind="stable")]


def text_of(database: Database, used: I64) -> dict[int, str]:
    """The texts of some string ids."""
    wanted = set(used.tolist())
    pairs = database.pairs("StringIds", "id", "value")
    return {key: str(value) for key, value in pairs if key in wanted}


def _read(
    database: Database, table: str, process: int | None, **more: int
) -> tuple[dict[str, I64], dict[str, Any]]:
    """The columns of a table, and those that are columns of every device event."""
    where = database.of_process(table, "globalPid", process)
    columns = database.numbers(table, {**_EVENT, **more}, where)
    device = np.where(abs(columns["deviceId"]) < _MOST_DEVICES, columns["deviceId"], 0)
    common = {"device": device, "stream": columns["streamId"], "corr": columns["correlationId"]}
    return columns, common


def _add_kernels(database: Database, rows: EventRows, process: int | None) -> I64:
    more = {"demangledName": -1, "shortName": -1, **_BLOCKS}
    columns, common = _read(database, _KERNEL, process, **more)
    name = np.where(columns["demangledName"] >= 0, columns["demangledName"], columns["shortName"])
    processors = max(database.number("TARGET_INFO_GPU", "smCount"), 0)
    grid = np.prod([columns[side].astype(np.float64) for side in _BLOCKS], axis=0)
    rows.add_device(
        columns["start"],
        columns["end"],
        kind=DeviceKind.KERNEL,
        name=name_rows(rows, name, text_of(database, np.unique(name)), "(unnamed kernel)"),
        blocks_per_sm=grid / processors if processors else np.nan,
        **common,
    )
    return common["device"]


def name_rows(rows: EventRows, ids: I64, texts: dict[int, str], missing: str) -> NDArray[np.int32]:
    """Return the codes of the names with some ids."""
    unique, inverse = np.unique(ids, return_inverse=True)
    return rows.name_codes([texts.get(key, missing) for key in unique.tolist()])[inverse]


def _add_named(
    database: Database, rows: EventRows, process: int | None, table: str, name: str
) -> I64:
    """Sets; and launches of whole graphs, as recorded without --cuda-graph-trace=node."""
    kind = DeviceKind.KERNEL if table == _GRAPH else DeviceKind.MEMSET
    columns, common = _read(database, table, process, bytes=-1)
    code, size = rows.names[name] if len(columns["start"]) else 0, columns["bytes"]
    rows.add_device(columns["start"], columns["end"], kind=kind, name=code, size=size, **common)
    return common["device"]


def _add_copies(database: Database, rows: EventRows, process: int | None) -> I64:
    more = {"bytes": -1, "copyKind": -1, "srcKind": -1, "dstKind": -1}
    columns, common = _read(database, "CUPTI_ACTIVITY_KIND_MEMCPY", process, **more)
    kinds = list(zip(*(columns[key].tolist() for key in list(more)[1:]), strict=True))
    rows.add_device(
        columns["start"],
        columns["end"],
        kind=DeviceKind.MEMCPY,
        name=rows.name_codes([_copy_name(*kind) for kind in kinds]),
        size=columns["bytes"],
        **common,
    )
    return common["device"]


def _copy_name(kind: int, source: int, target: int) -> str:
    """As PyTorch's profiler writes it: ``Memcpy HtoD (Pageable -> Device)``."""
    name = f"Memcpy {_COPIES.get(kind, '')}".strip()
    memory = _MEMORY.get(source), _MEMORY.get(target)
    return f"{name} ({memory[0]} -> {memory[1]})" if all(memory) else name


def device_of(database: Database, devices: I64) -> DeviceInfo:
    """The GPU that the process used most."""
    table = "TARGET_INFO_GPU"
    wanted = {"id": -1, "totalMemory": 0, "smCount": 0, "computeMajor": -1, "computeMinor": 0}
    columns = database.numbers(table, wanted)
    names = [name for _, name in database.pairs(table, "id", "name")]
    if not len(devices) and not len(columns["id"]):
        return DeviceInfo()
    main = _hardware_id(database, int(devices[0])) if len(devices) else -1
    row = int(np.argmax(columns["id"] == main)) if len(columns["id"]) else -1
    if row < 0:
        return DeviceInfo(kind="cuda", count=len(devices))
    major, minor = int(columns["computeMajor"][row]), int(columns["computeMinor"][row])
    return DeviceInfo(
        kind="cuda",
        name=str(names[row]) if row < len(names) else None,
        count=max(len(columns["id"]), len(devices)),
        memory_bytes=int(columns["totalMemory"][row]) or None,
        sm_count=int(columns["smCount"][row]) or None,
        capability=(major, minor) if major > 0 else None,
    )


def _hardware_id(database: Database, device: int) -> int:
    """The number of a GPU in the machine, by CUDA's number of it."""
    pairs = database.pairs("TARGET_INFO_CUDA_DEVICE", "cudaId", "gpuId")
    return next((int(gpu) for number, gpu in pairs if number == device), device)
