"""PyTorch's profiler, started and stopped by hand at step boundaries, and taken down completely.

The low-level calls that ``torch.profiler`` is made of, without its schedules and its Python
post-processing: no state of ``torch.profiler`` changes. Without shapes on the CPU: they make
stopping four times as dear. Kineto logs every start and stop to standard error, which belongs to
the job; its level is read once, at the first use, so it is told then and only then.

On CUDA, CUPTI would stay attached and slow later launches by 10 to 20 % unless ``TEARDOWN_CUPTI``
is 1 (pytorch/pytorch#144455, #146604); before CUDA 12.6 that crashes CUDA graphs, so there is no
recording there. Whoever traces already (nsys, ncu, a Kineto daemon) is left alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

LEAST_CUDA = (12, 6)
TRACERS = (
    "CUDA_INJECTION64_PATH",
    "NSYS_PROFILING_SESSION_ID",
    "NVTX_INJECTION64_PATH",
    "KINETO_USE_DAEMON",
    "KINETO_CONFIG",
    "KINETO_LOG_LEVEL",
)
"""set in the environment of a process that somebody traces, or wants to"""
DETACH = "TEARDOWN_CUPTI"
SILENT = "99"


class TorchProfiler:
    """One thread's profiler: ``start``, ``mark`` at every boundary, ``stop``."""

    def __init__(
        self, torch: Any, cuda: bool, shapes: bool | None = None, unrecorded: str | None = None
    ) -> None:
        self._torch = torch
        self._unrecorded = unrecorded
        self.cuda = cuda
        self._shapes = cuda if shapes is None else shapes
        self.running = False
        self._used = self._detaches = False
        self._range: Any = None

    def why_unavailable(self) -> str | None:
        """Why this process cannot be recorded at all."""
        if self._unrecorded:
            return self._unrecorded
        told = next((name for name in TRACERS if os.environ.get(name)), None)
        if told:
            return f"{told} is set"
        if not self._torch.autograd.kineto_available():
            return "this PyTorch has no Kineto"
        if self.cuda:
            version = tuple(int(n) for n in (self._torch.version.cuda or "0").split(".")[:2])
            if version < LEAST_CUDA:
                return f"CUDA {self._torch.version.cuda} cannot detach the profiler safely"
        return None

    def busy(self) -> str | None:
        """Why not right now, on this thread."""
        torch = self._torch
        if torch.autograd._profiler_enabled():
            return "a profiler is running"
        if torch.is_anomaly_enabled():
            return "anomaly mode is on"
        return "a CUDA graph is being captured" if self.is_capturing() else None

    def is_capturing(self) -> bool:
        """Whether what this thread gives the device becomes a graph."""
        return self.cuda and bool(self._torch.cuda.is_current_stream_capturing())

    def stay(self) -> None:
        """Leave CUPTI attached this time: somebody is about to record the device, who would find
        it being taken down (pytorch/kineto#1554)."""
        if self._detaches:
            os.environ[DETACH] = "0"

    def start(self, label: str) -> None:
        """Record this thread, and what it calls, from now on."""
        autograd = self._torch.autograd
        config, activities = self._profiler_config()
        if self.cuda and DETACH not in os.environ:
            os.environ[DETACH], self._detaches = "1", True  # stays, or to re-attach would fail
        if self._used:
            autograd._prepare_profiler(config, activities)
        else:
            os.environ["KINETO_LOG_LEVEL"] = SILENT
            try:
                autograd._prepare_profiler(config, activities)
            finally:
                del os.environ["KINETO_LOG_LEVEL"]
            self._used = True
        autograd._enable_profiler(config, activities)
        self.running = True
        self._open_span(label)

    def _profiler_config(self) -> tuple[Any, set[Any]]:
        from torch._C._profiler import _ExperimentalConfig

        autograd = self._torch.autograd
        own = (self._shapes, False, False, False, False)  # shapes, memory, stacks, FLOPs, modules
        config = autograd.ProfilerConfig(autograd.ProfilerState.KINETO, *own, _ExperimentalConfig())
        activities = {autograd.ProfilerActivity.CPU}
        return config, activities | ({autograd.ProfilerActivity.CUDA} if self.cuda else set())

    def _open_span(self, label: str) -> None:
        self._range = self._torch.autograd.profiler.record_function(label)
        self._range.__enter__()

    def _close_span(self) -> None:
        opened, self._range = self._range, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def mark(self, label: str) -> None:
        """A step ends, and the next one, ``label``, begins."""
        self._close_span()
        self._open_span(label)

    def stop(self) -> Any:
        """End, on the thread that started it. Returns what ``save`` takes. On CUDA this waits for
        the device, or the last step's kernels would be missing."""
        try:
            self._close_span()
            if self.cuda:
                self._torch.cuda.synchronize()
        finally:
            self.running = False
            result = self._torch.autograd._disable_profiler()
        return result

    def save(self, result: Any, path: str) -> int:
        """Write a recording whole or not at all, from any thread. Returns its size in bytes.

        Raises:
            OSError: nothing could be written.
        """
        draft = path + "~"
        result.save(draft)
        size = os.stat(draft).st_size
        os.replace(draft, path)
        return size

    def count_nodes(self) -> int:
        """How many nodes of autograd graphs this thread has made."""
        number: Callable[[], int] = getattr(self._torch._C._autograd, "_get_sequence_nr", int)
        return number()

    def count_compilations(self) -> int:
        """How many frames ``torch.compile`` has looked at."""
        utils = sys.modules.get("torch._dynamo.utils")
        return int(utils.counters["frames"]["total"]) if utils is not None else 0
