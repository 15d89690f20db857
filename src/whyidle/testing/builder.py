"""Builds recordings of imagined jobs, with the timing that a real device would give them.

A ``Builder`` keeps two clocks: the host's, which every call advances, and each stream's, which
work enqueued on it advances. A kernel starts when its launch has arrived and its stream is free;
a synchronisation blocks the host until the device has drained. So gaps, run-ahead and refills
come out as on hardware, and a test says only what the program does::

    job = Builder()
    for _ in range(4):
        with job.step():
            job.loader(us(5000))
            job.copy("h2d", 20_000_000, pinned=False)
            job.op("aten::mm", kernels=[("sgemm", us(900))], dims=[[64, 64], [64, 64]])
            job.optimizer(kernels=[("multi_tensor_apply_kernel", us(50))])
    timeline = job.timeline()

Everything it makes is marked as emulated.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whyidle.model.timeline import Timeline
from whyidle.readers import kineto

LAUNCH_NS = 5_000
ARRIVE_NS = 4_000
OP_NS = 6_000
PINNED_GBS = 25.0
PAGEABLE_GBS = 6.0

Kernel = tuple[str, int]


def us(value: float) -> int:
    """Return microseconds as nanoseconds."""
    return round(value * 1_000)


def ms(value: float) -> int:
    """Return milliseconds as nanoseconds."""
    return round(value * 1_000_000)


class Builder:
    """One process of an imagined job. Durations are integer nanoseconds, ``pinned_gbs`` and
    ``pageable_gbs`` the rates of copies, GB/s."""

    def __init__(
        self,
        *,
        device: str = "emulated NVIDIA A100-SXM4-80GB",
        memory_bytes: int = 80 << 30,
        capability: tuple[int, int] = (8, 0),
        rank: int | None = None,
        world_size: int | None = None,
        start_ns: int = 1_000_000_000,
        pinned_gbs: float = PINNED_GBS,
        pageable_gbs: float = PAGEABLE_GBS,
    ) -> None:
        self.now = start_ns
        self.events: list[dict[str, Any]] = []
        self._gbs = {True: pinned_gbs, False: pageable_gbs}
        self._free: dict[int, int] = {}
        self._correlation = 1
        self._step = 0
        self._thread = 100
        properties: dict[str, Any] = {"id": 0, "name": device, "totalGlobalMem": memory_bytes}
        properties |= {"computeMajor": capability[0], "computeMinor": capability[1], "numSms": 108}
        self._header: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [properties]}
        if rank is not None:
            world = world_size or rank + 1
            self._header["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}

    @contextmanager
    def span(self, name: str, category: str = "user_annotation", **args: Any) -> Iterator[None]:
        """Record a host event around everything inside."""
        begin = self.now
        yield
        self._host(category, name, begin, max(self.now, begin + 100), args)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Record one profiler step."""
        self._step += 1
        with self.span(f"ProfilerStep#{self._step}"):
            yield

    @contextmanager
    def thread(self, number: int) -> Iterator[None]:
        """Run everything inside on another host thread."""
        before, self._thread = self._thread, number
        yield
        self._thread = before

    def python(self, frame: str, duration: int) -> None:
        """Run a Python function, named ``file.py(12): function``."""
        with self.span(frame, "python_function"):
            self.now += duration

    def quiet(self, duration: int) -> None:
        """Spend host time without any recorded event."""
        self.now += duration

    def loader(self, duration: int, *, workers: int = 0) -> None:
        """Block on the next batch."""
        kind = "MultiProcessing" if workers else "SingleProcess"
        with self.span(f"enumerate(DataLoader)#_{kind}DataLoaderIter.__next__"):
            self.now += duration

    def runtime(self, name: str, duration: int, correlation: int = -1) -> None:
        """Call the device runtime."""
        begin = self.now
        self.now += duration
        self._host("cuda_runtime", name, begin, self.now, {"correlation": correlation})

    def sync(self, name: str = "cudaStreamSynchronize", stream: int | None = None) -> None:
        """Block until a stream (or the whole device) has drained."""
        streams = self._free if stream is None else [stream]
        until = max([self._free.get(s, 0) for s in streams], default=0)
        self.runtime(name, max(until - self.now, 0) + us(3))

    def behind(self, duration: int, stream: int = 7, *, shown: str = "") -> None:
        """Keep a stream busy with earlier work, optionally ``shown`` as a kernel without a
        launch."""
        self._free[stream] = self.now + duration
        if shown:
            args = {"device": 0, "stream": stream, "correlation": 0}
            self._emit("kernel", shown, self.now, duration, track=(0, stream), args=args)

    def memory(self, allocated: int, reserved: int) -> None:
        """Record an allocator event: bytes in use and bytes reserved from now on."""
        args = {"Total Allocated": allocated, "Total Reserved": reserved, "Bytes": 0}
        args |= {"Device Type": 1, "Device Id": 0}
        event = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "args": args}
        self.events.append({**event, "pid": 1, "tid": self._thread, "ts": self.now / 1_000})

    def launch(
        self, name: str, duration: int, *, stream: int = 7, blocking: bool = False, **args: Any
    ) -> None:
        """Launch one kernel; ``blocking`` waits for it, as with ``CUDA_LAUNCH_BLOCKING=1``."""
        correlation = self._next()
        begin = self.now
        done = self._device(
            "kernel", name, begin, duration, stream=stream, correlation=correlation, args=args
        )
        self.runtime("cudaLaunchKernel", done - begin if blocking else LAUNCH_NS, correlation)

    def graph(self, kernels: Sequence[Kernel], *, host: int = us(30), stream: int = 7) -> None:
        """Launch a CUDA graph: its kernels follow each other, and share one call."""
        correlation, begin = self._next(), self.now
        for name, duration in kernels:
            self._device(
                "kernel", name, begin, duration, stream=stream, correlation=correlation, args={}
            )
        self.runtime("cudaGraphLaunch", host, correlation)

    def op(
        self,
        name: str,
        *,
        kernels: Sequence[Kernel] = (),
        dims: Any = None,
        types: Sequence[str] | None = None,
        host: int = OP_NS,
        stream: int = 7,
        stack: str = "",
    ) -> None:
        """Run an operator that launches kernels."""
        args: dict[str, Any] = {}
        if dims is not None:
            args = {"Input Dims": dims, "Input type": types or ["float"] * len(dims)}
        if stack:
            args["Call stack"] = stack
        with self.span(name, "cpu_op", **args):
            self.now += host
            for kernel, duration in kernels:
                self.launch(kernel, duration, stream=stream)

    def copy(
        self, direction: str, size: int, *, pinned: bool = True, stream: int = 7, wait: bool = False
    ) -> None:
        """Copy bytes ("h2d" or "d2h"). A pageable copy blocks the host until its end; ``wait`` adds
        the synchronisation of a copy without ``non_blocking``."""
        kind = "Pinned" if pinned else "Pageable"
        names = {"h2d": f"Memcpy HtoD ({kind} -> Device)", "d2h": f"Memcpy DtoH (Device -> {kind})"}
        rate = self._gbs[pinned]
        duration = us(2) + round(size / rate)
        correlation = self._next()
        with self.span("aten::copy_", "cpu_op"):
            begin = self.now
            args = {"bytes": size, "memory bandwidth (GB/s)": rate}
            track = {"stream": stream, "correlation": correlation}
            done = self._device("gpu_memcpy", names[direction], begin, duration, args=args, **track)
            blocked = LAUNCH_NS if pinned else max(LAUNCH_NS, done - begin)
            self.runtime("cudaMemcpyAsync", blocked, correlation)
            if wait or not pinned:
                self.sync(stream=stream)

    def item(self, stack: str = "") -> None:
        """Run ``tensor.item()``: a small copy back, and a wait for it."""
        args = {"Call stack": stack} if stack else {}
        scalar = self.span("aten::_local_scalar_dense", "cpu_op")
        with self.span("aten::item", "cpu_op", **args):
            self.now += us(1)
            with scalar:
                self.now += us(1)
                self.copy("d2h", 4, pinned=False)

    def optimizer(self, kernels: Sequence[Kernel], name: str = "Adam") -> None:
        """Run an optimizer step."""
        with self.span(f"Optimizer.step#{name}.step"):
            for kernel, duration in kernels:
                self.op("aten::_foreach_add_", kernels=[(kernel, duration)])

    def collective(
        self,
        duration: int,
        *,
        name: str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
        call: str = "allreduce",
        elements: int = 1_000_000,
        group_size: int = 2,
        stream: int = 20,
        after: bool = True,
    ) -> None:
        """Run a collective on its own stream, ``after`` the compute stream as in DDP."""
        if after:
            self._free[stream] = max(self._free.get(stream, 0), self._free.get(7, 0))
        with self.span("nccl:all_reduce" if call == "allreduce" else f"nccl:{call}"):
            self.now += us(10)
            details: dict[str, Any] = {"Collective name": call, "In msg nelems": elements}
            details |= {"Group size": group_size, "Process Group Name": "0"}
            self.launch(name, duration, stream=stream, **details)

    def join(self, waiting: int = 7, awaited: int = 20) -> None:
        """Make one stream wait for another, as ``cudaStreamWaitEvent`` does."""
        self._free[waiting] = max(self._free.get(waiting, 0), self._free.get(awaited, 0))
        self.runtime("cudaStreamWaitEvent", us(1))

    def document(self) -> dict[str, Any]:
        """Return the recording as a PyTorch profiler trace."""
        return {**self._header, "traceEvents": self.events}

    def save(self, path: Path) -> Path:
        """Write the trace; ``.gz`` compresses."""
        text = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path

    def timeline(self) -> Timeline:
        """Return the recording as the importer reads it."""
        with tempfile.TemporaryDirectory() as folder:
            return kineto.load(self.save(Path(folder) / "built.json"))

    def timeline_of(self, program: Callable[[Builder], None]) -> Timeline:
        """Run a program on this builder and read the recording."""
        program(self)
        return self.timeline()

    def _next(self) -> int:
        self._correlation += 1
        return self._correlation

    def _host(self, category: str, name: str, begin: int, end: int, args: dict[str, Any]) -> None:
        self._emit(category, name, begin, end - begin, track=(1, self._thread), args=args)

    def _device(
        self,
        category: str,
        name: str,
        launched: int,
        duration: int,
        *,
        stream: int,
        correlation: int,
        args: dict[str, Any],
    ) -> int:
        begin = max(launched + LAUNCH_NS + ARRIVE_NS, self._free.get(stream, 0) + 1_000)
        self._free[stream] = begin + duration
        details = {"device": 0, "stream": stream, "correlation": correlation, **args}
        self._emit(category, name, begin, duration, track=(0, stream), args=details)
        return begin + duration

    def _emit(
        self,
        category: str,
        name: str,
        begin: int,
        duration: int,
        *,
        track: tuple[int, int],
        args: dict[str, Any],
    ) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": track[0], "tid": track[1]}
        self.events.append({**event, "ts": begin / 1_000, "dur": duration / 1_000, "args": args})
