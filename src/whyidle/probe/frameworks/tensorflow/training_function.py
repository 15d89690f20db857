"""The function that trains: the outermost ``tf.function`` in whose trace a gradient is taken.

Keras' ``fit`` and ``train_on_batch`` and loops of the job's own all have one; functions that
evaluate take no gradient. Each of its calls is a step.
"""

from __future__ import annotations

import threading
from types import CodeType
from typing import Any

from ...core.recorder import STEP

OWN = "_whyidle"
"""attribute of a ``tf.function`` with what is known of it"""
IN_KERAS = ("/keras/", "/tf_keras/")
FIT, BATCH = "Model.fit", "Model.train_on_batch"


class Step:
    """The steps of a function that trains. Functions that a job makes again from the same code are
    one."""

    def __init__(self, function: Any) -> None:
        file, _, self.name = place_of(function)
        self.label = self.name
        if any(folder in file for folder in IN_KERAS):
            self.label = BATCH if self.name == "one_step_on_data" else FIT
        self.kind = STEP
        """kind of its spans: a call that also waits for its batch is not all work"""


class Traced:
    """A function that is called outside any other."""

    def __init__(self) -> None:
        self.step: Step | None = None
        """if it trains"""
        self.batches = 1
        """steps of a call (``steps_per_execution``); the last call of an epoch may have fewer"""
        self.traces = 0


def code_of(function: Any) -> CodeType | None:
    """Return the code of the Python function that a ``tf.function`` traces."""
    python = function._python_function
    while hasattr(python, "__wrapped__"):
        python = python.__wrapped__
    python = getattr(python, "func", python)  # functools.partial
    code = getattr(python, "__code__", None)
    return code if isinstance(code, CodeType) else None


def place_of(function: Any) -> tuple[str, int, str]:
    """Return file, line and name of the Python function that a ``tf.function`` traces."""
    code = code_of(function)
    name = str(getattr(function._python_function, "__name__", "function"))
    return (code.co_filename, code.co_firstlineno, name) if code else ("", 0, name)


class CallState(threading.local):
    """What one thread is calling."""

    outermost: Any = None
    """the traced function that it runs or traces"""


class TrainingFunctions:
    """All functions that train in this process."""

    def __init__(self) -> None:
        self.calls = CallState()
        self.last: Any = None
        """the last function that was called outside any other, on any thread: replicas of a
        strategy are traced on threads of their own"""
        self.steps: dict[tuple[str, int, str], Step] = {}
        self.optimizer: Any = None
        """the last optimizer of Keras whose step was traced or run"""
        self.model: Any = None
        """a weak reference to the last model that was fitted"""
        self.batch_callbacks: list[str] = []
        """callbacks of the last ``fit`` that look at every batch"""

    def note_gradient(self) -> None:
        """A gradient was taken in a trace: mark the function that is being traced."""
        function = self.calls.outermost or self.last
        if function is None:
            return
        traced: Traced = vars(function).setdefault(OWN, Traced())
        if traced.step is None:
            key = place_of(function)
            if key not in self.steps:
                self.steps[key] = Step(function)
            traced.step = self.steps[key]
        if traced.step.label == FIT and self.model is not None:
            traced.batches = steps_per_call(self.model())


def steps_per_call(model: Any) -> int:
    """Return how many steps a call of ``fit``'s function takes."""
    steps = getattr(model, "steps_per_execution", None)
    variable: Any = getattr(model, "_steps_per_execution", None)
    if hasattr(variable, "read_value"):  # Keras 2
        from tensorflow import init_scope

        with init_scope():
            steps = variable.read_value()
    return max(1, int(1 if steps is None else steps))
