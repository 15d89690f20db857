"""Sets arguments of Keras' models and datasets as if the script had."""

from __future__ import annotations

import sys
import weakref
from functools import partial
from typing import Any

from ..frameworks.tensorflow.batch_callbacks import find_batch_callbacks
from . import NO_FORM, DeclinedError, KnobSession
from ._source_line import find_source_line

WORKERS, STEPS = "keras.workers", "keras.steps_per_execution"
ADAPTER = "keras.src.trainers.data_adapters.py_dataset_adapter"
FITTED = ("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer")
WITH_PARTIAL_CALLS = (3, 9)
"""the first version of Keras whose calls may have fewer steps at the end of an epoch"""
COUNTS = {"steps_per_epoch": 12, "validation_steps": 13}
"""arguments of ``fit`` that number steps, and their positions after the model"""
Functions = weakref.WeakKeyDictionary[Any, dict[int, dict[str, Any]]]
"""model -> steps in a call -> the functions that it made for that"""


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Change datasets and models that the job makes from now on."""
    session.decline_knobs([knob for knob in edits if knob not in (WORKERS, STEPS)], NO_FORM)
    if WORKERS in edits:
        session.wait_for([WORKERS], "the job fits no PyDataset with fewer threads")
        session.after_import(
            [WORKERS], ADAPTER, "PyDatasetAdapter", partial(_more_workers, session, edits[WORKERS])
        )
    if STEPS in edits:
        session.wait_for([STEPS], "the job fits no Keras 3 model on TensorFlow")
        session.after_import([STEPS], *FITTED, partial(_join_steps, session, edits[STEPS]))


def keras_version() -> tuple[int, ...]:
    """Return the first two parts of Keras' version. It is not known while Keras is imported."""
    return tuple(int(part) for part in sys.modules["keras"].__version__.split(".")[:2])


def _join_steps(session: KnobSession, steps: int, loaded: Any) -> None:
    """Take several steps in a call while a model is fitted. What else the model does, such as
    ``train_on_batch``, has functions of its own."""
    made: Functions = weakref.WeakKeyDictionary()
    lines: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()

    def join(model: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        if model.steps_per_execution != 1:
            return False
        try:
            check_joinable(model, steps, args, named)
        except DeclinedError as reason:
            session.decline_knobs([STEPS], str(reason))
            return False
        swap_functions(made, model, steps)
        session.line = lines.get(model)
        session.record_applied(STEPS)
        session.line = None
        return True

    def make(original: Any) -> Any:
        def fit(self: Any, *args: Any, **named: Any) -> Any:
            joined = session.run_contained([STEPS], join, self, args, named)
            try:
                return original(self, *args, **named)
            finally:
                if joined:
                    session.run_contained([STEPS], swap_functions, made, self, 1)

        return fit

    def note_compile(model: Any, frame: Any) -> None:
        made.pop(model, None)
        lines[model] = find_source_line(frame, model, session.start)

    def make_compile(original: Any) -> Any:
        def compile(self: Any, *args: Any, **named: Any) -> Any:  # noqa: A001
            session.run_contained([STEPS], note_compile, self, sys._getframe(1))
            return original(self, *args, **named)

        return compile

    session.replace_function(loaded.TensorFlowTrainer, "fit", make)
    session.replace_function(loaded.TensorFlowTrainer, "compile", make_compile)


def check_joinable(model: Any, steps: int, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Check whether the steps of a ``fit`` can be joined.

    Raises:
        DeclinedError: they cannot.
    """
    if keras_version() < WITH_PARTIAL_CALLS:
        raise DeclinedError("before Keras 3.9 an epoch cannot end within a call")
    if model.run_eagerly:
        raise DeclinedError("the model runs eagerly")
    if callbacks := find_batch_callbacks(args, named):
        raise DeclinedError(f"{callbacks[0]} needs every batch")
    for name, place in COUNTS.items():
        count = named.get(name, args[place] if len(args) > place else None)
        if count is not None and count % steps:
            raise DeclinedError(f"{name}={count} is not a multiple of {steps}")


def swap_functions(made: Functions, model: Any, steps: int) -> None:
    """Let a model take this many steps in a call, by the functions that it made for that."""
    names, own = ("train_function", "test_function"), made.setdefault(model, {})
    own[model.steps_per_execution] = {name: getattr(model, name) for name in names}
    for name, function in own.get(steps, dict.fromkeys(names)).items():
        setattr(model, name, function)
    model.steps_per_execution = steps


def _more_workers(session: KnobSession, workers: int, loaded: Any) -> None:
    """Give datasets threads that make batches ahead; the order of batches stays the same."""

    def raise_workers(dataset: Any) -> None:
        if dataset.workers < workers and not dataset.use_multiprocessing:
            dataset.workers = workers
            session.record_applied(WORKERS)

    def make(original: Any) -> Any:
        def init(self: Any, x: Any, *args: Any, **named: Any) -> None:
            session.run_contained([WORKERS], raise_workers, x)
            original(self, x, *args, **named)

        return init

    session.wrap_constructor(loaded.PyDatasetAdapter, make)
