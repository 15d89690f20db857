"""The adapter for JAX: installs its hooks and answers the core's questions."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, cast

from ... import wire
from ...core import adapter, fault_containment
from ...core.events import Events
from ...core.frameworks import BACKWARD
from ...core.host_reads import HOOK, HostReads
from ...core.import_hooks import call_after_import
from ...core.op_profiler import NoProfiler, OpProfiler
from ...core.own_files import FOLDER
from ...core.recorder import ANNOTATION
from ...core.span_hooks import record_calls
from ...core.trial_state import TrialState
from ...core.wrapped_functions import set_attribute
from ...wire import ProcessFacts
from ..keras_datasets import PyDatasets
from ..keras_hooks import after_import, install_backend_hooks
from . import compilation, compiled_calls, gradients, profiler
from .compiled_calls import CompiledCalls
from .process_facts import FactsReader
from .trial_state import StepState

VALUE, WAIT = "ArrayImpl._value", "jax.block_until_ready"
LOGS = ("keras.src.utils.python_utils", "pythonify_logs")
"""Keras reads the numbers of a step for its callbacks; on a CPU past ``ArrayImpl._value``"""
SAVES = (
    ("numpy", "savez", ""),
    ("numpy", "savez_compressed", ""),
    ("pickle", "dump", ""),
    ("flax.serialization", "to_bytes", ""),
    ("orbax.checkpoint._src.checkpointers.checkpointer", "Checkpointer", "save"),
    ("orbax.checkpoint.checkpoint_manager", "CheckpointManager", "save"),
)
"""how jobs save parameters: module, function or class, method"""


def install_save_hooks(events: Events) -> None:
    """Record saves from now on, with modules that the job imports later."""
    for module, name, method in SAVES:
        where = f"{module}.{name}"
        watch = functools.partial(_watch_save, events, name, method)
        attach = functools.partial(events.run_contained, "saves", watch)
        events.undo[where] = call_after_import(module, name, attach)


def _watch_save(events: Events, name: str, method: str, module: Any) -> None:
    owner, attribute = (getattr(module, name), method) if method else (module, name)
    where = f"{module.__name__}.{name}"
    label = ".".join(filter(None, (module.__name__.partition(".")[0], name, method)))
    events.patch_function(
        where, owner, attribute, record_calls(events, wire.CHECKPOINT, label, ANNOTATION, where)
    )


def install_read_hooks(events: Events, jax: Any, calls: CompiledCalls) -> None:
    """Watch the functions through which the value of an array reaches Python."""
    from jax._src.array import ArrayImpl

    reads, calls.wait = HostReads(events, calls.note_read), ArrayImpl.block_until_ready
    undoes = []
    value = vars(ArrayImpl).get("_value")
    if isinstance(value, property) and value.fget is not None:
        watched = property(reads.watch(value.fget, VALUE), value.fset, value.fdel, value.__doc__)
        undoes.append(set_attribute(ArrayImpl, "_value", watched))
    for owner, name in ((ArrayImpl, "block_until_ready"), (jax, "block_until_ready")):
        if hasattr(owner, name):
            original = getattr(owner, name)
            undoes.append(set_attribute(owner, name, reads.watch(original, WAIT)))

    def watch_logs(loaded: Any) -> None:
        watch = functools.partial(reads.watch, label=LOGS[1])
        events.patch_function(LOGS[1], loaded, LOGS[1], watch)

    after_import(events, *LOGS, watch_logs, "jax")
    events.undo[HOOK] = lambda: [undo() for undo in undoes]


class Adapter(adapter.Adapter):
    """See ``core.adapter.Adapter``."""

    name = "jax"
    packages = ("jax", "jaxlib", "grain")
    backward_label = BACKWARD
    is_tracing = staticmethod(bool)

    def __init__(self) -> None:
        self._facts: FactsReader | None = None

    @staticmethod
    def name_batch(iterator: type) -> tuple[str, str]:
        """Return role and label of the batches that iterators of this class return."""
        return wire.BATCH_FROM_ITERATOR, f"{iterator.__module__}.{iterator.__name__}.__next__"

    @staticmethod
    def name_optimizer(optimizer: Any) -> str:
        """Return the label of a training step: the function that was compiled."""
        name = getattr(optimizer, "__name__", "")
        return f"jit({name})" if name else "optax.apply_updates"

    def install(self, events: Events) -> None:
        """Install all hooks for JAX."""
        jax = sys.modules["jax"]
        calls = compiled_calls.install_call_hooks(events, jax)
        gradients.install_gradient_hooks(events, jax, calls)
        events.run_contained("reads", install_read_hooks, events, jax, calls)
        events.run_contained("compilation", compilation.install_compile_hooks, events, jax, calls)
        events.run_contained("saves", install_save_hooks, events)
        events.run_contained("keras", install_backend_hooks, events, "jax")
        events.run_contained("keras", PyDatasets, events, "jax")
        self._facts = FactsReader(events, calls)
        events.add_listener(self._facts)

    def hide(self, folder: str) -> None:
        """Leave the probe's frames out of the source lines that JAX records for operators."""
        try:
            from jax._src import source_info_util

            source_info_util.register_exclusion(os.path.dirname(FOLDER.rstrip(os.sep)))
        except (ImportError, AttributeError) as error:  # other names in this version of JAX
            fault_containment.note_fault(folder, "source lines", error)

    def describe_process(self) -> ProcessFacts | None:
        """Return facts that hold whether the process trains or not."""
        return None if self._facts is None else self._facts.describe_process()

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Return the facts known when training begins."""
        return {} if self._facts is None else self._facts.describe_training(optimizer)

    def op_profiler(self, facts: ProcessFacts) -> OpProfiler:
        """Return the profiler for bursts; none where nothing is compiled."""
        if self._facts is None:
            return cast("OpProfiler", NoProfiler("the hooks of JAX failed"))
        jax, on_cpu = sys.modules["jax"], facts.get("device") == "cpu"
        return profiler.make_profiler(jax, self._facts.calls, cuda=not on_cpu)

    def watch_profilers(self, events: Events, forbid: Callable[[str], None]) -> None:
        """Call ``forbid`` with a reason before the job uses its own profiler."""
        profiler.watch_profilers(events, sys.modules["jax"], forbid)

    def trial_state(self) -> TrialState:
        """Return what a trial's witness reads."""
        return StepState()

    def install_trial(self, events: Events, awaited: Callable[[], bool]) -> None:
        """Watch the process for a trial."""
        if self._facts is not None:
            from .trial_hooks import install_trial_hooks  # only trials load it

            install_trial_hooks(events, self._facts.calls, awaited)
