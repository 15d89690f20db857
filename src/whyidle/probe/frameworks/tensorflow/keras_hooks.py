"""The hooks of Keras: optimizers, evaluation, checkpoints. They are installed when the job has
imported the module that they wrap; names of Keras 3, of Keras 2 and of ``tf_keras``."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.events import Events
from ...core.wrapped_functions import Wrap
from ..keras_hooks import after_import, install_model_hooks, record_evaluations
from .batch_callbacks import find_batch_callbacks
from .input_waits import InputWaits
from .step_hooks import wrap_optimizer
from .training_function import TrainingFunctions

BACKEND = "tensorflow"
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


def install_keras_hooks(events: Events, found: TrainingFunctions, waits: InputWaits) -> None:
    """Install the hooks of each module of Keras, now or once it is imported."""
    for module, name, method in OPTIMIZERS:
        attach = partial(_attach_optimizer, events, found, name, method)
        after_import(events, module, name, attach, BACKEND)
    remember = _remember_model(events, found, waits)
    for module, name in TRAINERS:
        attach = partial(_attach_trainer, events, remember, module, name)
        after_import(events, module, name, attach, BACKEND)
    install_model_hooks(events, BACKEND)


def _attach_optimizer(
    events: Events, found: TrainingFunctions, name: str, method: str, loaded: Any
) -> None:
    kind = getattr(loaded, name)
    if method in vars(kind):  # Keras 3 has a module of the same name as Keras 2
        wrap_optimizer(events, kind, method, found)


def _attach_trainer(events: Events, remember: Wrap, module: str, name: str, loaded: Any) -> None:
    record_evaluations(events, module, name, loaded)
    events.patch_function(f"{module} fit", getattr(loaded, name), "fit", remember)


def _remember_model(events: Events, found: TrainingFunctions, waits: InputWaits) -> Wrap:
    """Note the model that is fitted, and its callbacks; let go of its iterators at the end."""

    def note_callbacks(args: Any, kwds: Any) -> None:
        found.batch_callbacks = find_batch_callbacks(args, kwds)

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def fit(self: Any, *args: Any, **kwds: Any) -> Any:
            found.model = weakref.ref(self)
            events.run_contained("callbacks of fit", note_callbacks, args, kwds)
            try:
                return original(self, *args, **kwds)
            finally:
                events.run_contained("iterators of fit", waits.release_iterators)

        return fit

    return wrap
