"""The hooks of Keras: optimizers, evaluation, checkpoints. They are installed when the job has
imported the module that they wrap; names of Keras 3, of Keras 2 and of ``tf_keras``."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.import_hooks import call_after_import
from ...core.recorder import ANNOTATION, clock_ns
from ...core.span_hooks import record_calls
from ...core.wrapped_functions import Wrap
from .batch_callbacks import find_batch_callbacks
from .pipelines import Pipelines
from .step_hooks import wrap_optimizer
from .training_function import TrainingFunctions

OPTIMIZERS = (
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "apply"),
    ("keras.src.optimizers.optimizer", "Optimizer", "apply_gradients"),
    ("tf_keras.src.optimizers.optimizer", "Optimizer", "apply_gradients"),
)
"""module, class, method"""
TRAINERS = (
    ("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"),
    ("keras.src.engine.training", "Model"),
    ("tf_keras.src.engine.training", "Model"),
)
SAVERS = (
    ("keras.src.models.model", "Model"),
    ("keras.src.engine.training", "Model"),
    ("tf_keras.src.engine.training", "Model"),
    ("tensorflow.python.checkpoint.checkpoint", "Checkpoint"),
)
"""module and class of what saves itself"""
CALLBACKS = (
    "keras.src.callbacks.callback_list",
    "keras.src.callbacks",
    "tf_keras.src.callbacks",
)
"""modules of the class ``CallbackList``"""
PY_DATASET = ("keras.src.trainers.data_adapters.py_dataset_adapter", "PyDatasetAdapter")
PER_BATCH = ("on_train_batch_begin", "on_train_batch_end")
LEAST_NS = 50_000
"""calls of callbacks that take less are not recorded: Keras' own take some ten microseconds"""
SAVES = {
    "Model": ("keras.Model", ("save", "save_weights", "export")),
    "Checkpoint": ("tf.train.Checkpoint", ("write",)),  # which its save calls
}
"""class: its public name, and its methods that write files"""


def install_keras_hooks(events: Events, found: TrainingFunctions, pipelines: Pipelines) -> None:
    """Install the hooks of each module of Keras, now or once it is imported."""
    for module, name, method in OPTIMIZERS:
        _after_import(events, module, name, partial(_attach_optimizer, events, found, name, method))
    for module, name in TRAINERS:
        _after_import(events, module, name, partial(_attach_trainer, events, found, module, name))
    for module, name in SAVERS:
        _after_import(events, module, name, partial(_attach_saver, events, module, name))
    for module in CALLBACKS:
        _after_import(events, module, "CallbackList", partial(_time_callbacks, events))
    _after_import(events, *PY_DATASET, partial(_note_datasets, events, pipelines))


def _attach_optimizer(
    events: Events, found: TrainingFunctions, name: str, method: str, loaded: Any
) -> None:
    kind = getattr(loaded, name)
    if method in vars(kind):  # Keras 3 has a module of the same name as Keras 2
        wrap_optimizer(events, kind, method, found)


def _attach_trainer(
    events: Events, found: TrainingFunctions, module: str, name: str, loaded: Any
) -> None:
    where, kind = f"{module} evaluate", getattr(loaded, name)
    evaluation = record_calls(events, wire.EVALUATION, "evaluation", ANNOTATION, where)
    events.patch_function(where, kind, "evaluate", evaluation)
    events.patch_function(f"{module} fit", kind, "fit", _remember_model(events, found))


def _attach_saver(events: Events, module: str, name: str, loaded: Any) -> None:
    kind, (public, methods) = getattr(loaded, name), SAVES[name]
    for save in methods:
        if hasattr(kind, save):
            where = f"{module} {save}"
            saves = record_calls(events, wire.CHECKPOINT, f"{public}.{save}", ANNOTATION, where)
            events.patch_function(where, kind, save, saves)


def _remember_model(events: Events, found: TrainingFunctions) -> Wrap:
    """Note the model that is fitted, and its callbacks."""

    def note_callbacks(args: Any, kwds: Any) -> None:
        found.batch_callbacks = find_batch_callbacks(args, kwds)

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def fit(self: Any, *args: Any, **kwds: Any) -> Any:
            found.model = weakref.ref(self)
            events.run_contained("callbacks of fit", note_callbacks, args, kwds)
            return original(self, *args, **kwds)

        return fit

    return wrap


def _note_datasets(events: Events, pipelines: Pipelines, loaded: Any) -> None:
    """Note the PyDatasets that the job trains on."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, x: Any, *args: Any, **kwds: Any) -> None:
            events.run_contained("PyDataset", pipelines.note_dataset, x)
            original(self, x, *args, **kwds)

        return init

    events.patch_function("PyDataset", loaded.PyDatasetAdapter, "__init__", wrap)


def _time_callbacks(events: Events, loaded: Any) -> None:
    """Record the calls of callbacks for each batch that take long."""
    for name in PER_BATCH:
        where = f"{loaded.__name__} {name}"
        if where not in events.undo:
            events.patch_function(where, loaded.CallbackList, name, _record_long(events, where))


def _record_long(events: Events, where: str) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        label = f"CallbackList.{original.__name__}"

        def call(*args: Any, **kwds: Any) -> Any:
            begin = clock_ns()
            try:
                return original(*args, **kwds)
            finally:
                if clock_ns() - begin > LEAST_NS:
                    events.run_contained(
                        where, events.add_span, wire.CALLBACK, label, ANNOTATION, begin
                    )

        return call

    return wrap


def _after_import(events: Events, module: str, name: str, work: Callable[[Any], None]) -> None:
    where = f"waiting for {module}.{name}"

    def attach(loaded: Any) -> None:
        events.run_contained(where, work, loaded)

    events.undo[where] = call_after_import(module, name, attach)
