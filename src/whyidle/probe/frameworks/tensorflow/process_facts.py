"""Reads the facts of a process of TensorFlow."""

from __future__ import annotations

import gc
import sys
import time
from math import prod
from typing import Any

from ...core.events import Events
from ...core.listener import Listener
from ...core.process_facts import describe_identity, describe_training_thread, note_memory
from ...core.recorder import clock_ns
from ...wire import OptimizerFacts, ProcessFacts, Switches
from .training_function import TrainingFunctions, steps_per_call

ENVIRONMENT = (
    "TF_CONFIG",
    "TF_USE_LEGACY_KERAS",
    "TF_GPU_THREAD_MODE",
    "TF_GPU_THREAD_COUNT",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
    "KERAS_BACKEND",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)


class FactsReader(Listener):
    """Reads the facts for the recorder."""

    listener = "tensorflow facts"

    def __init__(self, events: Events, found: TrainingFunctions) -> None:
        self.events, self.found = events, found

    def describe_process(self) -> ProcessFacts | None:
        """Return facts that hold whether a process trains or not, without starting a device."""
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow is None:
            return None
        version = str(getattr(tensorflow, "__version__", ""))
        return describe_identity(self.events.imported, version, ENVIRONMENT)

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Return all facts known at the first step."""
        import tensorflow

        gpus = tensorflow.config.list_logical_devices("GPU")
        facts: ProcessFacts = {
            **(self.describe_process() or {}),
            **describe_training_thread(),
            "device": "cuda" if gpus else "cpu",
            "device_index": 0 if gpus else None,
            "device_name": _device_name(tensorflow) if gpus else None,
            "cuda_built": _cuda_version(tensorflow),
            "switches": self._read_switches(tensorflow),
        }
        facts["cpu"] = [[clock_ns(), time.process_time_ns()]]
        used = self.found.optimizer
        if used is not None:
            facts["optimizer"] = _describe_optimizer(used)
        return facts

    def _read_switches(self, tensorflow: Any) -> Switches:
        model = None if self.found.model is None else self.found.model()
        functions = bool(tensorflow.config.functions_run_eagerly())
        eagerly = bool(getattr(model, "run_eagerly", False))
        return {
            "num_threads": tensorflow.config.threading.get_intra_op_parallelism_threads(),
            "gc_threshold": list(gc.get_threshold()),
            "functions_eager": functions,
            "run_eagerly": eagerly and not functions,
            "steps_per_call": None if model is None else steps_per_call(model),
            "batch_callbacks": self.found.batch_callbacks,
            "seen": {
                "looks": 1,
                "functions_eager": int(functions),
                "run_eagerly": int(eagerly and not functions),
            },
        }

    def on_chore(self) -> None:
        """Refresh the facts that change while the process trains."""
        facts = self.events.recorder.facts
        if facts.get("framework") == "tensorflow":
            for name, ask in self.events.live_facts.items():
                facts[name] = ask()
            note_memory(facts, self.events.steps)
            facts["cpu"] = [*facts.get("cpu", [])[:1], [clock_ns(), time.process_time_ns()]]

    on_process_end = on_chore


def _device_name(tensorflow: Any) -> str | None:
    devices = tensorflow.config.list_physical_devices("GPU")
    details = tensorflow.config.experimental.get_device_details(devices[0]) if devices else {}
    name = details.get("device_name")
    return None if name is None else str(name)


def _cuda_version(tensorflow: Any) -> str | None:
    return tensorflow.sysconfig.get_build_info().get("cuda_version")


def _describe_optimizer(optimizer: Any) -> OptimizerFacts:
    variables = getattr(optimizer, "_trainable_variables", None) or []
    return {
        "name": type(optimizer).__name__,
        "tensors": len(variables),
        "elements": sum(prod(map(int, variable.shape)) for variable in variables),
        "groups": 1,
        "foreach": None,
        "fused": None,
        "differentiable": None,
        "momentum": None,
        "unread": 0,
        "dtype": _common_type(variables),
    }


def _common_type(variables: list[Any]) -> str | None:
    types = [str(getattr(one.dtype, "name", one.dtype)) for one in variables]
    return max(set(types), key=types.count, default=None)
