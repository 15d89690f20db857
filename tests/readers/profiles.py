"""Profiles of TensorFlow and JAX as the frameworks write them, for the tests of this folder."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def nested(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(data)) + data


class PlaneWriter:
    """A plane; an event is (name, start ns, length ns or None, values by name)."""

    def __init__(self, name: str, **stats: Any) -> None:
        self.name = name
        self._events: dict[str, int] = {}
        self._stats: dict[str, int] = {}
        self._operators: dict[str, str] = {}
        self._lines = b""
        self._values = b"".join(nested(6, self._stat(key, value)) for key, value in stats.items())

    def line(
        self, name: str, events: Sequence[tuple[Any, ...]], *, start_ns: int = 0
    ) -> PlaneWriter:
        content = number(1, len(self._lines)) + nested(2, name) + number(3, start_ns)
        for text, start, length, *values in events:
            content += nested(4, self._event(text, start, length, dict(*values)))
        self._lines += nested(3, content)
        return self

    def operator(self, name: str, kind: str) -> PlaneWriter:
        self._operators[name] = kind
        return self

    def _event(self, name: str, start: int, length: int | None, values: Mapping[str, Any]) -> bytes:
        key = self._events.setdefault(name, len(self._events) + 1)
        content = number(1, key) + number(2, start * 1000)
        content += b"" if length is None else number(3, length * 1000)
        return content + b"".join(nested(4, self._stat(k, v)) for k, v in values.items())

    def _stat(self, name: str, value: Any) -> bytes:
        content = number(1, self._stats.setdefault(name, len(self._stats) + 1))
        if isinstance(value, float):
            return content + varint(2 << 3 | 1) + struct.pack("<d", value)
        return content + (number(4, value) if isinstance(value, int) else nested(5, value))

    def bytes(self) -> bytes:
        content = nested(2, self.name) + self._lines
        for name, key in self._events.items():
            shown = nested(4, self._operators[name]) if name in self._operators else b""
            entry = number(1, key) + nested(2, number(1, key) + nested(2, name) + shown)
            content += nested(4, entry)
        for name, key in self._stats.items():
            content += nested(5, number(1, key) + nested(2, number(1, key) + nested(2, name)))
        return nested(1, content + self._values)


def space(*planes: PlaneWriter, host: str = "node7") -> bytes:
    task = PlaneWriter("Task Environment", profile_start_time=START_NS)
    return b"".join(plane.bytes() for plane in (*planes, task)) + nested(4, host)


def gpu_job(steps: int = 6, *, vendor: str = "Nvidia") -> bytes:
    """Steps of 10 ms: 2 ms wait for input, a copy, then a kernel of 5 ms that is launched late."""
    gpu = PlaneWriter("/device:GPU:0", device_vendor=vendor, memory_size=80 << 30, core_count=108)
    host = PlaneWriter("/host:CPU")
    kernels: list[tuple[Any, ...]] = []
    copies, calls, python, waits = list(kernels), list(kernels), list(kernels), list(kernels)
    for i in range(steps):
        at, link = i * 10 * MS, 2 * i + 1
        python.append(("train", at, 10 * MS, {"_r": 1, "step_num": i}))
        waits.append(("IteratorGetNextOp::DoCompute", at, 2 * MS))
        python.append(("PjitFunction(step)", at + 2 * MS, 2 * MS))
        details = "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"
        for offset, name, number in ((2.1, "cuMemcpyHtoDAsync", 0), (3.0, "cuLaunchKernel", 1)):
            start = at + int(offset * MS)
            calls.append((name, start, MS // 10, {"correlation_id": link + number}))
        copies.append(
            (
                "MemcpyH2D",
                at + 22 * MS // 10,
                MS // 10,
                {"correlation_id": link, "memcpy_details": details},
            )
        )
        kernels.append(
            ("ampere_sgemm_128x64_tn", at + 4 * MS, 5 * MS, {"correlation_id": link + 1})
        )
    gpu.line("Stream #7(Kernel)", kernels).line("Stream #8(MemcpyH2D)", copies)
    host.line("python", python).line("Host Threads/77", calls)
    host.line("tf_data_iterator_get_next/5", waits)
    return space(gpu, host)


def cpu_job(steps: int = 8) -> bytes:
    """A function of TensorFlow: 6 ms wait for input, 2 ms compute, 2 ms of the user's Python."""
    host = PlaneWriter("/host:CPU").operator("model/MatMul:MatMul", "MatMul")
    python: list[tuple[Any, ...]] = []
    waits, work = list(python), list(python)
    for i in range(steps):
        at = i * 10 * MS
        python.append(("one_step", at, 8 * MS, {"tf_function_call": "notTraced-nonXla"}))
        waits.append(("IteratorGetNextOp::DoCompute", at, 6 * MS))
        work.append(("model/MatMul:MatMul", at + 6 * MS, 2 * MS))
    host.line("python", python).line("tf_data_iterator_get_next/5", waits)
    return space(host.line("tf_Compute/3", work))


def tpu_job(steps: int = 6) -> bytes:
    """Steps of 10 ms: 6 ms wait for infeed, a loop of fusions of 2 and 1 ms, an all-reduce."""
    tpu = PlaneWriter("/device:TPU:0", device_type_string="TPU v4")
    marks: list[tuple[Any, ...]] = []
    work, beside = list(marks), list(marks)
    for i in range(steps):
        at = i * 10 * MS
        marks.append((str(i), at, 10 * MS))
        work.append(("infeed.1", at, 6 * MS))
        work.append(("while.2", at + 6 * MS, 4 * MS))
        work += [("fusion.3", at + 6 * MS, 2 * MS), ("fusion.4", at + 8 * MS, MS)]
        beside.append(("copy-start.5", at, 5 * MS))
        beside.append(("%all-reduce-start.6 = f32[8]", at + 9 * MS, MS))
    tpu.line("Steps", marks).line("XLA Ops", work).line("Async XLA Ops", beside)
    return space(tpu, PlaneWriter("/host:CPU"))
