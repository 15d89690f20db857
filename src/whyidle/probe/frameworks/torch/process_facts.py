"""What the process says about itself: read once when it first trains, a part of it again later."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from ...core.cpu_cores import given_count, usable_cores
from ...core.events import Events
from ...core.listener import Listener
from ...core.recorder import clock_ns
from ...wire import OptimizerFacts, ProcessFacts, Switches
from . import accelerator

ENVIRONMENT = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "MKL_NUM_THREADS",
    "CUDA_LAUNCH_BLOCKING",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_SHOW_CPP_STACKTRACES",
    "NCCL_DEBUG",
    "PYTHONMALLOC",
    "PYTHONDEVMODE",
    "PYTORCH_CUDA_ALLOC_CONF",
    "CUDA_VISIBLE_DEVICES",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "LOCAL_RANK",
)
MOST_MEMORY = 2_000
MOST_OPTIMIZERS = 8


class FactsReader(Listener):
    """Reads them for the recorder. ``anomaly_requested``: whether the job asked for anomaly mode,
    which is on for moments while PyTorch compiles as well."""

    listener = "process facts"

    def __init__(self, events: Events, anomaly_requested: Callable[[], bool]) -> None:
        self.events, self.anomaly_requested = events, anomaly_requested

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Everything known at the first step."""
        import torch

        kind = accelerator.device_type(torch, optimizer)
        told: ProcessFacts = {
            **self._read_identity(torch),
            "device": kind,
            "device_index": accelerator.device_index(optimizer, kind),
            "device_name": accelerator.device_name(torch, optimizer),
            "thread": threading.get_ident(),
            "first_step": clock_ns(),
            "cores": usable_cores(),
            "cores_given": given_count(),
            **_read_ranks(torch),
        }
        told["switches"] = self.read_switches(torch)
        if optimizer is not None:
            told["optimizer"] = _describe_optimizer(optimizer)
        return told

    def describe_process(self) -> ProcessFacts | None:
        """What holds for a process whether it trains or not; asking for it starts no device."""
        torch = sys.modules.get("torch")
        return None if torch is None else self._read_identity(torch)

    def _read_identity(self, torch: Any) -> ProcessFacts:
        return {
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "argv": sys.argv[:20],
            "torch": torch.__version__,
            "cuda_built": getattr(torch.version, "cuda", None),
            "cuda_initialized": bool(torch.cuda.is_initialized()),
            "gpus": _host_gpus(),
            "main": threading.main_thread().ident,
            "process_start": _process_start(),
            "imported": self.events.imported,
            "environment": {key: os.environ[key] for key in ENVIRONMENT if key in os.environ},
        }

    def on_chore(self) -> None:
        """Read again what may change while the process trains."""
        self.events.run_contained("settings", self._refresh_facts)

    on_process_end = on_chore

    def _refresh_facts(self) -> None:
        told = self.events.recorder.facts
        torch = sys.modules.get("torch")
        if not told or torch is None:
            return
        found: Switches = {**told["switches"], **self.shared_switches(torch)}
        told["switches"] = {**found, "seen": _count_switches(told, found)}
        for name, ask in self.events.live_facts.items():
            cast("dict[str, Any]", told)[name] = ask()
        _note_memory(told, self.events.steps)
        _note_allocator(torch, told, self.events.steps)

    def on_optimizer(self, label: str, optimizer: Any) -> None:
        """Tell of one that steps beside the first, by its label; some jobs make ever new ones."""
        told = self.events.recorder.facts
        known = told.get("optimizers", {})
        if told and len(known) < MOST_OPTIMIZERS:  # of the first one they tell already
            told["optimizers"] = {**known, label: _describe_optimizer(optimizer)}

    def read_switches(self, torch: Any) -> Switches:
        """All switches, as the calling thread sees them."""
        return {
            **self.shared_switches(torch),
            "num_threads": torch.get_num_threads(),
            "num_interop_threads": torch.get_num_interop_threads(),
            "autocast": bool(torch.is_autocast_enabled()),
            "gc_threshold": list(gc.get_threshold()),
        }

    def shared_switches(self, torch: Any) -> Switches:
        """Those that every thread sees alike."""
        cudnn, ask = torch.backends.cudnn, self._read_switch
        deterministic = torch.are_deterministic_algorithms_enabled
        return {
            "anomaly_mode": ask("anomaly_mode", lambda: self._anomaly_mode(torch)),
            "deterministic": ask("deterministic", lambda: bool(deterministic())),
            "cudnn_benchmark": ask("cudnn_benchmark", lambda: bool(cudnn.benchmark)),
            "cudnn_deterministic": ask("cudnn_deterministic", lambda: bool(cudnn.deterministic)),
            "matmul_precision": ask("matmul_precision", lambda: _matmul_precision(torch)),
            "sync_debug": ask("sync_debug", lambda: _reports_waits(torch)),
        }

    def _anomaly_mode(self, torch: Any) -> bool:
        return bool(torch.is_anomaly_enabled()) and self.anomaly_requested()

    def _read_switch(self, name: str, ask: Callable[[], Any]) -> Any:
        """How a switch is set; None where it does not say."""
        try:
            return ask()
        except Exception as error:  # contained: of one switch, and not of all that is known
            self.events.remove_faulty(f"switch {name}", error)
            return None


def _reports_waits(torch: Any) -> bool:
    """Whether CUDA tells of every wait for it; a CUDA that is not in use is not asked, as that
    would start it."""
    cuda = torch.cuda
    return bool(cuda.is_initialized() and cuda.get_sync_debug_mode())


def _matmul_precision(torch: Any) -> str:
    """How exactly float32 matrices are multiplied. A job that has set it by the newer switch, which
    came with PyTorch 2.9, may not ask by the older one."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


def _count_switches(told: ProcessFacts, found: Switches) -> dict[str, int]:
    """How often each switch was seen on."""
    seen: dict[str, int] = told.get("switches", {}).get("seen", {})
    on = {key: seen.get(key, 0) + 1 for key, value in found.items() if value is True}
    return {**seen, **on, "looks": seen.get("looks", 0) + 1}


def _read_ranks(torch: Any) -> ProcessFacts:
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        rank, world = str(distributed.get_rank()), str(distributed.get_world_size())
    return {"rank": rank, "world_size": world}


def _host_gpus() -> list[str]:
    """GPUs that this host has, whatever the framework can see."""
    try:
        return sorted(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return []


def _describe_optimizer(optimizer: Any) -> OptimizerFacts:
    groups = getattr(optimizer, "param_groups", [])
    tensors = [p for group in groups for p in group["params"]]
    first = groups[0] if groups else {}
    return {
        "name": type(optimizer).__name__,
        "module": type(optimizer).__module__,
        "groups": len(groups),
        "tensors": len(tensors),
        "elements": sum(p.numel() for p in tensors),
        "foreach": first.get("foreach"),
        "fused": first.get("fused"),
        "capturable": first.get("capturable"),
        "differentiable": first.get("differentiable"),
        "momentum": first.get("momentum"),
    }


def _note_memory(told: ProcessFacts, steps: int) -> None:
    """Resident memory against the number of steps, thinned as it grows long."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return
    series = told.setdefault("memory", [])
    if not series or series[-1][1] != steps:
        series.append([clock_ns(), steps, pages * os.sysconf("SC_PAGE_SIZE")])
    if len(series) > MOST_MEMORY:
        del series[::2]


def _note_allocator(torch: Any, told: ProcessFacts, steps: int) -> None:
    """Counts of the allocator of device memory; of a job on the CPU there is none."""
    module = accelerator.device_module(torch, str(told.get("device")))
    if not hasattr(module, "memory_stats") or not module.is_initialized():
        return
    index = told.get("device_index") or 0
    stats = module.memory_stats(index)
    known = told.get("allocator")
    retries = int(stats.get("num_alloc_retries", 0))
    reads = [*(known["reads"] if known else []), [clock_ns(), steps, retries]]
    told["allocator"] = {
        "allocated_peak_bytes": int(stats.get("allocated_bytes.all.peak", 0)),
        "reserved_peak_bytes": int(stats.get("reserved_bytes.all.peak", 0)),
        "device_bytes": int(module.get_device_properties(index).total_memory),
        "out_of_memory": int(stats.get("num_ooms", 0)),
        "reads": reads[:: 2 if len(reads) > MOST_MEMORY else 1],
    }


def _process_start() -> int | None:
    """When this process began, on the clock of the records."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return clock_ns() - int(age * 1e9)
