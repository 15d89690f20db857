"""Reads the facts of a process: all when training begins, some again later."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...core.events import Events
from ...core.listener import Listener
from ...core.process_facts import (
    MOST_MEMORY,
    describe_identity,
    describe_training_thread,
    note_memory,
)
from ...core.recorder import clock_ns
from ...wire import OptimizerFacts, ProcessFacts, Switches
from . import accelerator

ENVIRONMENT = (
    "CUDA_LAUNCH_BLOCKING",
    "TORCH_SHOW_CPP_STACKTRACES",
    "NCCL_DEBUG",
    "PYTORCH_CUDA_ALLOC_CONF",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "LOCAL_RANK",
)
MOST_OPTIMIZERS = 8


class FactsReader(Listener):
    """Reads the facts for the recorder. ``anomaly_requested``: whether the job switched anomaly
    mode on, which PyTorch also does briefly while it compiles."""

    listener = "process facts"

    def __init__(self, events: Events, anomaly_requested: Callable[[], bool]) -> None:
        self.events, self.anomaly_requested = events, anomaly_requested
        self.optimizer: Callable[[], Any] = bool
        """weak reference to the first optimizer, until its gradients have been counted"""

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Return all facts known at the first step."""
        import torch

        kind = accelerator.device_type(torch, optimizer)
        facts: ProcessFacts = {
            **self._read_identity(torch),
            "device": kind,
            "device_index": accelerator.device_index(optimizer, kind),
            "device_name": accelerator.device_name(torch, optimizer),
            **describe_training_thread(),
            **_read_ranks(torch),
        }
        facts["switches"] = self.read_switches(torch)
        if optimizer is not None:
            facts["optimizer"] = _describe_optimizer(optimizer)
            self.optimizer = weakref.ref(optimizer)
        return facts

    def describe_process(self) -> ProcessFacts | None:
        """Return facts that hold whether a process trains or not, without starting a device."""
        torch = sys.modules.get("torch")
        return None if torch is None else self._read_identity(torch)

    def _read_identity(self, torch: Any) -> ProcessFacts:
        identity = describe_identity(self.events.imported, torch.__version__, ENVIRONMENT)
        return {**identity, "cuda_built": getattr(torch.version, "cuda", None)}

    def on_look(self) -> None:
        """Count what the first optimizer updates although no sample of the batch has read it."""
        facts, optimizer = self.events.recorder.facts, self.optimizer()
        if facts and optimizer and facts.get("device") == "cpu" and "optimizer" in facts:
            facts["optimizer"] = {**facts["optimizer"], "unread": _count_unread(optimizer)}
            self.optimizer = bool

    def on_chore(self) -> None:
        """Refresh the facts that may change while the process trains."""
        self.events.run_contained("settings", self._refresh_facts)

    on_process_end = on_chore

    def _refresh_facts(self) -> None:
        facts = self.events.recorder.facts
        torch = sys.modules.get("torch")
        if not facts or torch is None or facts.get("framework", "torch") != "torch":
            return  # nothing trains, or another framework does
        switches: Switches = {**facts["switches"], **self.shared_switches(torch)}
        facts["switches"] = {**switches, "seen": _count_switches(facts, switches)}
        for name, ask in self.events.live_facts.items():
            facts[name] = ask()
        note_memory(facts, self.events.steps)
        _note_allocator(torch, facts, self.events.steps)

    def on_optimizer(self, label: str, optimizer: Any) -> None:
        """Describe a further optimizer, by its label; at most ``MOST_OPTIMIZERS``."""
        facts = self.events.recorder.facts
        known = facts.get("optimizers", {})
        if facts.get("framework", "torch") != "torch":
            return
        if facts and len(known) < MOST_OPTIMIZERS:  # without facts it is the first optimizer
            facts["optimizers"] = {**known, label: _describe_optimizer(optimizer)}

    def read_switches(self, torch: Any) -> Switches:
        """Return all switches, as the calling thread sees them."""
        return {
            **self.shared_switches(torch),
            "num_threads": torch.get_num_threads(),
            "gc_threshold": list(gc.get_threshold()),
        }

    def shared_switches(self, torch: Any) -> Switches:
        """Return the switches that are the same on every thread."""
        cudnn, ask = torch.backends.cudnn, self._read_switch
        deterministic = torch.are_deterministic_algorithms_enabled
        return {
            "anomaly_mode": ask("anomaly_mode", lambda: self._anomaly_mode(torch)),
            "deterministic": ask("deterministic", lambda: bool(deterministic())),
            "cudnn_benchmark": ask("cudnn_benchmark", lambda: bool(cudnn.benchmark)),
            "cudnn_deterministic": ask("cudnn_deterministic", lambda: bool(cudnn.deterministic)),
        }

    def _anomaly_mode(self, torch: Any) -> bool:
        return bool(torch.is_anomaly_enabled()) and self.anomaly_requested()

    def _read_switch(self, name: str, ask: Callable[[], Any]) -> Any:
        """The value of a switch; None if it cannot be read."""
        try:
            return ask()
        except Exception as error:  # contained: the other facts are still recorded
            self.events.remove_faulty(f"switch {name}", error)
            return None


def _count_switches(facts: ProcessFacts, switches: Switches) -> dict[str, int]:
    """Count how often each switch was on."""
    seen: dict[str, int] = facts.get("switches", {}).get("seen", {})
    on = {key: seen.get(key, 0) + 1 for key, value in switches.items() if value is True}
    return {**seen, **on, "looks": seen.get("looks", 0) + 1}


def _read_ranks(torch: Any) -> ProcessFacts:
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        rank, world = str(distributed.get_rank()), str(distributed.get_world_size())
    return {"rank": rank, "world_size": world}


def _describe_optimizer(optimizer: Any) -> OptimizerFacts:
    groups = getattr(optimizer, "param_groups", [])
    tensors = [p for group in groups for p in group["params"]]
    first = groups[0] if groups else {}
    types = Counter(str(p.dtype).rpartition(".")[2] for p in tensors)
    return {
        "name": type(optimizer).__name__,
        "tensors": len(tensors),
        "elements": sum(p.numel() for p in tensors),
        "groups": len(groups),
        "foreach": first.get("foreach"),
        "fused": first.get("fused"),
        "differentiable": first.get("differentiable"),
        "momentum": first.get("momentum"),
        "dtype": max(types, key=lambda name: types[name], default=None),
        "unread": 0,
    }


def _count_unread(optimizer: Any) -> int:
    """Elements in rows without a gradient, of tables of which a batch reads up to a tenth: of other
    matrices, all rows may wait for a layer that starts at zero, and half of them for a ReLU."""
    tensors = [p.grad for group in optimizer.param_groups for p in group["params"]]
    dense = [t for t in tensors if t is not None and t.dim() == 2 and not t.is_sparse]
    zeros = [(int((~grad.any(1)).sum()), grad.shape) for grad in dense]
    return sum(unread * wide for unread, (rows, wide) in zeros if 0.9 * rows <= unread < rows)


def _note_allocator(torch: Any, facts: ProcessFacts, steps: int) -> None:
    """Record counters of the allocator of device memory; none for a job on the CPU."""
    module = accelerator.device_module(torch, str(facts.get("device")))
    if not hasattr(module, "memory_stats") or not module.is_initialized():
        return
    index = facts.get("device_index") or 0
    stats = module.memory_stats(index)
    known = facts.get("allocator")
    retries = int(stats.get("num_alloc_retries", 0))
    reads = [*(known["reads"] if known else []), [clock_ns(), steps, retries]]
    facts["allocator"] = {
        "allocated_peak_bytes": int(stats.get("allocated_bytes.all.peak", 0)),
        "device_bytes": int(module.get_device_properties(index).total_memory),
        "reads": reads[:: 2 if len(reads) > MOST_MEMORY else 1],
    }
