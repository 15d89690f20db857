"""The hooks of Keras that are alike on every backend (evaluation, checkpoints, callbacks), and the
steps of its optimizers on PyTorch, which are none of PyTorch's own. A process may have imported
several of the frameworks: only the adapter of Keras' backend installs them."""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import wire
from ..core.events import Events
from ..core.import_hooks import call_after_import
from ..core.recorder import ANNOTATION, clock_ns
from ..core.span_hooks import record_calls
from ..core.wrapped_functions import Wrap, set_attribute

TRAINERS = {
    "torch": ("keras.src.backend.torch.trainer", "TorchTrainer"),
    "jax": ("keras.src.backend.jax.trainer", "JAXTrainer"),
}
"""backend: module, class"""
CONFIG = "keras.src.backend.config"
OPTIMIZER = ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "apply")
"""module, class, method"""
SAVERS = (
    ("keras.src.models.model", "Model"),
    ("keras.src.engine.training", "Model"),
    ("tf_keras.src.engine.training", "Model"),
    ("tensorflow.python.checkpoint.checkpoint", "Checkpoint"),
    ("tensorflow.python.checkpoint.checkpoint_management", "CheckpointManager"),
)
"""module and class of what saves itself"""
CALLBACKS = ("keras.src.callbacks.callback_list", "keras.src.callbacks", "tf_keras.src.callbacks")
"""modules of the class ``CallbackList``"""
PER_BATCH = ("on_train_batch_begin", "on_train_batch_end")
LEAST_NS = 50_000
"""calls of callbacks that take less are not recorded: Keras' own take some ten microseconds"""
SAVES = {
    "Model": ("keras.Model", ("save", "save_weights", "export")),
    "Checkpoint": ("tf.train.Checkpoint", ("write", "save")),  # none calls another one
    "CheckpointManager": ("tf.train.CheckpointManager", ("save",)),
}
"""class: its public name, and its methods that write files"""


def install_backend_hooks(events: Events, backend: str) -> None:
    """Install the hooks of Keras on PyTorch or JAX, once the job has imported it."""
    install_model_hooks(events, backend)
    module, name = TRAINERS[backend]
    record = partial(record_evaluations, events, module, name)
    after_import(events, module, name, record, backend)


def install_optimizer_hook(events: Events) -> None:
    """Record the steps of Keras' optimizers on PyTorch."""
    module, name, method = OPTIMIZER
    after_import(
        events, module, name, lambda loaded: _wrap_apply(events, loaded, name, method), "torch"
    )


def _wrap_apply(events: Events, loaded: Any, name: str, method: str) -> None:
    kind, where = getattr(loaded, name), "keras optimizer"
    original, home = getattr(kind, method), threading.get_ident()

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwds: Any) -> Any:
        begin = clock_ns()
        result = original(self, *args, **kwds)
        if where not in events.off and threading.get_ident() == (events.home or home):
            events.run_contained(where, note_step, self, begin)
        return result

    def note_step(optimizer: Any, begin: int) -> None:
        events.other_stepped(optimizer, begin, clock_ns())
        events.steps = steps = events.steps + 1
        if steps >= events.due:
            events.attend_step(None)  # it has none of what PyTorch's have

    events.undo[where] = set_attribute(kind, method, apply)


def install_model_hooks(events: Events, backend: str) -> None:
    """Record checkpoints of models, and callbacks that take long."""
    for module, name in SAVERS:
        after_import(events, module, name, partial(_attach_saver, events, module, name), backend)
    for module in CALLBACKS:
        after_import(events, module, "CallbackList", partial(_time_callbacks, events), backend)


def record_evaluations(events: Events, module: str, name: str, loaded: Any) -> None:
    """Record the calls of a trainer's ``evaluate``, and count those of ``fit``."""
    where, fits = f"{module} evaluate", Counter[str]()
    evaluation = record_calls(events, wire.EVALUATION, "evaluation", ANNOTATION, where)
    events.patch_function(where, getattr(loaded, name), "evaluate", evaluation)
    events.live_facts["fits"] = fits.total

    def count(original: Callable[..., Any]) -> Callable[..., Any]:
        def fit(*args: Any, **kwds: Any) -> Any:
            fits["fit"] += 1
            return original(*args, **kwds)

        return fit

    events.patch_function(f"{module} fits", getattr(loaded, name), "fit", count)


def _attach_saver(events: Events, module: str, name: str, loaded: Any) -> None:
    kind, (public, methods) = getattr(loaded, name), SAVES[name]
    for save in methods:
        if hasattr(kind, save):
            where = f"{module} {save}"
            saves = record_calls(events, wire.CHECKPOINT, f"{public}.{save}", ANNOTATION, where)
            events.patch_function(where, kind, save, saves)


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


def after_import(
    events: Events, module: str, name: str, work: Callable[[Any], None], backend: str
) -> None:
    """Call ``work`` with a module of Keras, now or once the job has imported it, if Keras computes
    with this backend; Keras 2 and ``tf_keras`` know none but TensorFlow."""
    where = f"waiting for {module}.{name} on {backend}"

    def attach(loaded: Any) -> None:
        config = sys.modules.get(CONFIG) if module.startswith("keras.") else None
        if (config.backend() if config else "tensorflow") == backend:
            events.run_contained(where, work, loaded)

    events.undo[where] = call_after_import(module, name, attach)
