"""Starts and stops PyTorch's profiler at step boundaries and detaches it completely.

It uses the low-level functions below ``torch.profiler``, without schedules and Python
post-processing, so no state of ``torch.profiler`` changes. On the CPU shapes are not recorded: they
make stopping four times as expensive. Kineto logs every start and stop to standard error, which
belongs to the job; it reads its log level at the first use only, so the level is set just then.

On CUDA, CUPTI would stay attached and slow later launches by 10 to 20 % unless ``TEARDOWN_CUPTI``
is 1 (pytorch/pytorch#144455, #146604); before CUDA 12.6 that crashes CUDA graphs, so nothing is
recorded there. A process that another tool traces (nsys, ncu, a Kineto daemon) is not recorded.
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
"""variables in the environment of a process that another tool traces"""
DETACH = "TEARDOWN_CUPTI"
SILENT = "99"


class TorchProfiler:
    """One thread's profiler: ``start``, ``mark`` at every boundary, ``stop``."""

    suffix = "json"

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
        """Return why this process cannot be recorded at all; None if it can."""
        if self._unrecorded:
            return self._unrecorded
        variable = next((name for name in TRACERS if os.environ.get(name)), None)
        if variable:
            return f"{variable} is set"
        if not self._torch.autograd.kineto_available():
            return "this PyTorch has no Kineto"
        if self.cuda:
            version = tuple(int(n) for n in (self._torch.version.cuda or "0").split(".")[:2])
            if version < LEAST_CUDA:
                return f"CUDA {self._torch.version.cuda} cannot detach the profiler safely"
        return None

    def busy(self) -> str | None:
        """Return why this thread cannot be recorded now; None if it can."""
        torch = self._torch
        if torch.autograd._profiler_enabled():
            return "a profiler is running"
        if torch.is_anomaly_enabled():
            return "anomaly mode is on"
        return "a CUDA graph is being captured" if self.is_capturing() else None

    def is_capturing(self) -> bool:
        """Whether the work of this thread is captured as a graph."""
        return self.cuda and bool(self._torch.cuda.is_current_stream_capturing())

    def stay(self) -> None:
        """Leave CUPTI attached: another profiler is about to record the device, and would fail
        while it is detached (pytorch/kineto#1554)."""
        if self._detaches:
            os.environ[DETACH] = "0"

    def start(self, label: str) -> None:
        """Record this thread from now on, beginning with the step ``label``."""
        autograd = self._torch.autograd
        config, activities = self._profiler_config()
        if self.cuda and DETACH not in os.environ:
            os.environ[DETACH], self._detaches = "1", True  # stays set, or re-attaching would fail
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
        """Mark the end of a step and the begin of the next one, ``label``."""
        self._close_span()
        self._open_span(label)

    def stop(self) -> Any:
        """Stop, on the thread that started it. Returns what ``save`` takes. On CUDA this waits for
        the device, as the last step's kernels would be missing otherwise."""
        try:
            self._close_span()
            if self.cuda:
                self._torch.cuda.synchronize()
        finally:
            self.running = False
            result = self._torch.autograd._disable_profiler()
        return result

    def save(self, result: Any, path: str) -> int:
        """Write a recording completely or not at all, from any thread. Returns its size in bytes.

        Raises:
            OSError: nothing could be written.
        """
        draft = path + "~"
        result.save(draft)
        size = os.stat(draft).st_size
        os.replace(draft, path)
        return size

    def estimate_events(self, step_s: float) -> None:
        """Return None: the nodes of a step's graph tell it."""

    def count_nodes(self) -> int:
        """Return how many nodes of autograd graphs this thread has created."""
        number: Callable[[], int] = getattr(self._torch._C._autograd, "_get_sequence_nr", int)
        return number()

    def count_compilations(self) -> int:
        """Return how many frames ``torch.compile`` has processed."""
        utils = sys.modules.get("torch._dynamo.utils")
        counters = getattr(utils, "counters", None)  # lacks while the module is being imported
        return int(counters["frames"]["total"]) if counters is not None else 0
