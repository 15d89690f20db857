"""Facts about a training process of JAX."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from typing import Any

from ...core.events import Events
from ...core.listener import Listener
from ...core.process_facts import describe_identity, describe_training_thread, note_memory
from ...core.recorder import clock_ns
from ...wire import ProcessFacts
from .compiled_calls import CompiledCalls
from .gradients import UncompiledStep

ENVIRONMENT = (
    "XLA_FLAGS",
    "JAX_PLATFORMS",
    "JAX_DISABLE_JIT",
    "JAX_DEBUG_NANS",
    "JAX_ENABLE_X64",
    "JAX_COMPILATION_CACHE_DIR",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "KERAS_BACKEND",
)
FLAGS = ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs", "jax_check_tracer_leaks")
"""debugging modes that slow steps down"""
PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}


class FactsReader(Listener):
    """Reads the facts for the recorder. Nothing here starts a device: the first step has."""

    listener = "jax facts"

    def __init__(self, events: Events, calls: CompiledCalls) -> None:
        self.events, self.calls = events, calls
        self.seen: Counter[str] = Counter()

    def describe_process(self) -> ProcessFacts | None:
        """Return facts that hold whether a process trains or not."""
        jax = sys.modules.get("jax")
        if jax is None:
            return None
        return describe_identity(self.events.imported, jax.__version__, ENVIRONMENT)

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Return all facts known at the first step."""
        return {
            **(self.describe_process() or {}),
            **describe_training_thread(),
            **self._describe_device(),
            **_read_ranks(),
            "switches": {"num_threads": os.cpu_count() or 1},
            "compiled": not isinstance(optimizer, UncompiledStep),
        }

    def _describe_device(self) -> ProcessFacts:
        devices = getattr(self.calls.output, "devices", None)
        found = sorted(devices(), key=lambda one: one.id) if devices else []
        if not found:
            return {"device": "cpu", "device_index": None, "device_name": None}
        platform = str(found[0].platform)
        return {
            "device": PLATFORMS.get(platform, platform),
            "device_index": found[0].id if platform != "cpu" else None,
            "device_name": None if platform == "cpu" else str(found[0].device_kind),
        }

    def on_chore(self) -> None:
        """Refresh the facts that may change while the process trains."""
        self.events.run_contained("jax settings", self._refresh_facts)

    on_process_end = on_chore

    def _refresh_facts(self) -> None:
        facts, jax, steps = self.events.recorder.facts, sys.modules["jax"], self.events.steps
        if facts.get("framework") != "jax":
            return
        note_memory(facts, steps)
        self.seen.update(["looks", *(flag for flag in FLAGS if getattr(jax.config, flag, False))])
        facts["switches"] = {**facts["switches"], "seen": dict(self.seen)}
        facts.update(self.calls.facts)
        for name, ask in self.events.live_facts.items():
            facts[name] = ask()
        facts["cpu"] = [*facts.get("cpu", [])[:1], [clock_ns(), time.process_time_ns()]]
        if self.calls.pages is not None and steps > self.calls.pages[0]:
            before, known = self.calls.pages
            taken = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - known
            facts["fresh_bytes"] = os.sysconf("SC_PAGE_SIZE") * taken / (steps - before)


def _read_ranks() -> ProcessFacts:
    """Rank and number of processes of a distributed job."""
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    count = getattr(state, "num_processes", None)
    if state is None or not count or count == 1:
        return {"rank": None, "world_size": None}
    return {"rank": str(state.process_id), "world_size": str(count)}
