"""The hooks of Keras: optimizers, evaluation, checkpoints. They are installed when the job has
imported the module that they wrap; names of Keras 3, of Keras 2 and of ``tf_keras``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.import_hooks import call_after_import
from ...core.recorder import ANNOTATION
from ...core.span_hooks import record_calls
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
MODELS = (
    ("keras.src.models.model", "Model"),
    ("keras.src.engine.training", "Model"),
    ("tf_keras.src.engine.training", "Model"),
)
SAVES = ("save", "save_weights", "export")


def install_keras_hooks(events: Events, found: TrainingFunctions) -> None:
    """Install the hooks of each module of Keras, now or once it is imported."""
    for module, name, method in OPTIMIZERS:

        def attach_optimizer(loaded: Any, name: str = name, method: str = method) -> None:
            kind = getattr(loaded, name)
            if method in vars(kind):  # Keras 3 has a module of the same name as Keras 2
                wrap_optimizer(events, kind, method, found)

        _after_import(events, module, name, attach_optimizer)
    for module, name in TRAINERS:

        def attach_trainer(loaded: Any, module: str = module, name: str = name) -> None:
            evaluation = record_calls(
                events, wire.EVALUATION, "evaluation", ANNOTATION, f"{module} evaluate"
            )
            events.patch_function(
                f"{module} evaluate", getattr(loaded, name), "evaluate", evaluation
            )

        _after_import(events, module, name, attach_trainer)
    for module, name in MODELS:

        def attach_model(loaded: Any, module: str = module, name: str = name) -> None:
            for save in SAVES:
                kind = getattr(loaded, name)
                if hasattr(kind, save):
                    where = f"{module} {save}"
                    label = f"keras.Model.{save}"
                    saves = record_calls(events, wire.CHECKPOINT, label, ANNOTATION, where)
                    events.patch_function(where, kind, save, saves)

        _after_import(events, module, name, attach_model)


def _after_import(events: Events, module: str, name: str, work: Callable[[Any], None]) -> None:
    where = f"waiting for {module}.{name}"

    def attach(loaded: Any) -> None:
        events.run_contained(where, work, loaded)

    events.undo[where] = call_after_import(module, name, attach)
