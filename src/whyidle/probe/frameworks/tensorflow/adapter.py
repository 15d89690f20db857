"""The adapter for TensorFlow, and for Keras on TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ... import wire
from ...core import adapter
from ...core.events import Events
from ...core.frameworks import BACKWARD
from ...core.host_reads import HOOK, HostReads
from ...core.op_profiler import NoProfiler, OpProfiler
from ...core.trial_state import TrialState
from ...core.wrapped_functions import set_attribute
from ...wire import ProcessFacts
from . import profiler
from .input_waits import INPUT
from .keras_hooks import install_keras_hooks
from .pipelines import install_dataset_hooks
from .process_facts import FactsReader
from .step_hooks import TracedCalls, install_step_hooks
from .training_function import TrainingFunctions
from .trial_hooks import install_trial_hooks
from .trial_state import KerasState

READ = "_numpy"
"""what ``numpy()``, ``float()``, ``print``, a condition and ``np.asarray`` call"""


def install_read_hooks(events: Events) -> None:
    """Watch the method through which the value of a tensor reaches Python."""
    from tensorflow.python.framework import ops

    kind = ops._EagerTensorBase
    read = HostReads(events).watch(getattr(kind, READ), "EagerTensor.numpy", is_elsewhere)
    events.undo[HOOK] = set_attribute(kind, READ, read)


def is_elsewhere(tensor: Any) -> bool:
    """Whether a tensor is on a device of its own: where the CPU is the device, it has computed the
    tensor when the call returns that makes it."""
    return "CPU" not in tensor.device


class Adapter(adapter.Adapter):
    """See ``core.adapter.Adapter``."""

    name = "tensorflow"
    packages = ("tensorflow", "keras", "tf_keras")
    backward_label = BACKWARD
    is_tracing = bool

    def __init__(self) -> None:
        self._found = TrainingFunctions()
        self._calls: TracedCalls | None = None
        self._facts: FactsReader | None = None

    @staticmethod
    def name_batch(iterator: type) -> tuple[str, str]:  # noqa: ARG004  # the adapter's interface
        """Return role and label of the batches that iterators of this class return."""
        return wire.BATCH_FROM_ITERATOR, INPUT

    @staticmethod
    def name_optimizer(optimizer: Any) -> str:
        """Return the label of a step: of a traced function, or of an optimizer of Keras."""
        label = getattr(optimizer, "label", None)
        return label if isinstance(label, str) else f"{type(optimizer).__name__}.apply"

    def install(self, events: Events) -> None:
        """Install all hooks for TensorFlow and Keras."""
        found = self._found
        install_dataset_hooks(events)
        self._calls = install_step_hooks(events, found)
        install_keras_hooks(events, found, self._calls.waits)
        events.run_contained("reads", install_read_hooks, events)
        self._facts = FactsReader(events, found)
        events.add_listener(self._facts)

    def hide(self, folder: str) -> None:
        """Nothing to do: autograph converts no function of an installed package."""

    def describe_process(self) -> ProcessFacts | None:
        """Return facts that hold whether the process trains or not."""
        return None if self._facts is None else self._facts.describe_process()

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Return the facts known when training begins."""
        return {} if self._facts is None else self._facts.describe_training(optimizer)

    def op_profiler(self, facts: ProcessFacts) -> OpProfiler:
        """Return the profiler for bursts."""
        if self._calls is None:
            return cast("OpProfiler", NoProfiler("the hooks of TensorFlow failed"))
        draft = self._calls.events.recorder.file_path("profile~")
        return profiler.make_profiler(facts.get("device") != "cpu", draft)

    def watch_profilers(self, events: Events, forbid: Callable[[str], None]) -> None:
        """Call ``forbid`` with a reason before the job uses its own profiler."""
        profiler.watch_profilers(events, forbid)

    def trial_state(self) -> TrialState:
        """Return what a trial's witness reads."""
        return KerasState(self._found)

    def install_trial(self, events: Events, awaited: Callable[[], bool]) -> None:
        """Watch the process for a trial."""
        if self._calls is not None:
            install_trial_hooks(events, self._found, self._calls, awaited)
