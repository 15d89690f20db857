"""The adapter for PyTorch: installs its hooks and answers the core's questions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core import adapter, fault_containment
from ...core.device_timestamps import DeviceMarks
from ...core.events import Events
from ...core.frameworks import BACKWARD
from ...core.listener import Listener
from ...core.trial_state import TrialState
from ...wire import ProcessFacts
from ..keras_datasets import PyDatasets
from ..keras_hooks import install_backend_hooks, install_optimizer_hook
from . import (
    accelerator,
    checkpoints,
    collectives,
    compilation,
    dataloader,
    debug_modes,
    evaluation,
    foreign_profilers,
    out_of_memory,
    step_hooks,
    trial_hooks,
    trial_state,
)
from .device_clock import CudaClock, find_clock
from .looks import memory_look, model_look, rank_look
from .process_facts import FactsReader
from .profiler import TorchProfiler
from .tracing import HIDING, hide_modules, tracing_query

PACKAGE = __name__.partition(".")[0]


class Adapter(adapter.Adapter):
    """See ``core.adapter.Adapter``."""

    name = "torch"
    packages = ("torch",)
    backward_label = BACKWARD

    def __init__(self) -> None:
        self.is_tracing = tracing_query()
        self._facts: FactsReader | None = None

    @staticmethod
    def name_batch(iterator: type) -> tuple[str, str]:
        """Return role and label of the batches that iterators of this class return."""
        from torch.utils.data import dataloader

        label = f"enumerate(DataLoader)#{iterator.__name__}.__next__"
        if issubclass(iterator, dataloader._MultiProcessingDataLoaderIter):
            return wire.BATCH_FROM_WORKERS, label
        inline = issubclass(iterator, dataloader._SingleProcessDataLoaderIter)
        return wire.BATCH_INLINE if inline else wire.BATCH_FROM_ITERATOR, label

    @staticmethod
    def name_optimizer(optimizer: Any) -> str:
        """Return the label of an optimizer's steps."""
        return f"Optimizer.step#{type(optimizer).__name__}.step"

    def install(self, events: Events) -> None:
        """Install all hooks for PyTorch."""
        step_hooks.install_step_hooks(events)
        dataloader.install_loader_hooks(events)
        collectives.install_collective_hooks(events)
        checkpoints.install_checkpoint_hooks(events)
        evaluation.install_evaluation_hooks(events)
        accelerator.install_synchronization_hooks(events)
        compilation.install_compile_hooks(events)
        modes = debug_modes.install_debug_modes(events)
        self._facts = FactsReader(events, modes.anomaly_requested)
        events.add_listener(self._facts)
        events.add_listener(DeviceHooks(events))
        rank_look.install_rank_look(events)
        out_of_memory.install_death_notes(events)
        install_backend_hooks(events, "torch")
        PyDatasets(events, "torch")
        install_optimizer_hook(events)
        if memory_look.is_requested():
            events.add_listener(memory_look.MemoryLook(events))
        if memory_look.is_requested("model"):
            events.add_listener(model_look.ModelLook(events))

    def hide(self, folder: str) -> None:
        """Exclude the probe's functions from ``torch.compile``, once all are loaded."""
        own = [sys.modules[name] for name in list(sys.modules) if name.startswith(PACKAGE)]
        try:
            hide_modules(*own)
        except (ImportError, AttributeError) as error:  # other names in this version of PyTorch
            fault_containment.note_fault(folder, HIDING, error)

    def describe_process(self) -> ProcessFacts | None:
        """Return facts that hold whether the process trains or not."""
        return None if self._facts is None else self._facts.describe_process()

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Return the facts known when training begins."""
        return {} if self._facts is None else self._facts.describe_training(optimizer)

    def op_profiler(self, facts: ProcessFacts) -> TorchProfiler:
        """Return PyTorch's own profiler."""
        torch, kind = sys.modules["torch"], facts.get("device")
        unrecorded = accelerator.why_not_recorded(torch, facts)
        return TorchProfiler(torch, kind == "cuda", shapes=kind != "cpu", unrecorded=unrecorded)

    def watch_profilers(self, events: Events, forbid: Callable[[str], None]) -> None:
        """Call ``forbid`` before the job uses its own profiler."""
        foreign_profilers.watch_profilers(events, forbid)

    def trial_state(self) -> TrialState:
        """Return what a trial's witness reads."""
        return trial_state

    def install_trial(self, events: Events, awaited: Callable[[], bool]) -> None:
        """Watch the process for a trial."""
        trial_hooks.install_trial_hooks(events, awaited)


class DeviceHooks(Listener):
    """Measures the device that the process trains on, if it has events that can be timed."""

    listener = "device hooks"

    def __init__(self, events: Events) -> None:
        self.events = events

    def on_training_begin(self, optimizer: Any) -> None:
        """Install the hooks of the device, which is known now."""
        torch, facts = sys.modules["torch"], self.events.recorder.facts
        clock = find_clock(torch, facts) if facts.get("framework") == Adapter.name else None
        if clock is None:  # or another framework trains
            return
        self.events.add_listener(DeviceMarks(self.events, clock))
        if isinstance(clock, CudaClock):
            clock.watch_captures(self.events)
        accelerator.watch_device(self.events, torch, str(facts["device"]))
