"""The hooks that run in every step: traced functions, gradients, optimizers, and iterators.

As in the hooks for PyTorch, the fast path calls no helper function. A fault removes the hook and
never reaches the job.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.compilation_log import CompilationLog
from ...core.events import Events
from ...core.frameworks import BACKWARD
from ...core.recorder import ANNOTATION, OP, STEP
from ...core.wrapped_functions import set_attribute
from .input_waits import InputWaits
from .pipelines import Pipelines
from .training_function import FIT, OWN, Step, Traced, TrainingFunctions, place_of

LOOP = "a loop of the job's own"
SHORT_NS = 20_000
"""calls of other traced functions that take less are not recorded, as for JAX"""
clock, thread = time.perf_counter_ns, threading.get_ident
Signature = dict[str, str]
"""argument -> its shape and type, or its value if it is none of TensorFlow's"""
NEW_OBJECT = "another object of class"


class RetraceRecorder(CompilationLog):
    """Records each trace of a function that is called outside any other."""

    def __init__(self, events: Events) -> None:
        super().__init__(events)
        self.signatures: dict[tuple[str, int, str], tuple[int, Signature]] = {}
        """place of a function -> its identity and arguments at the last trace"""

    def note_trace(self, function: Any, args: Any, kwds: Any, begin: int) -> None:
        """Record a call that traced the function; it ends now."""
        key = place_of(function)
        now = describe_arguments(function, args, kwds)
        before = self.signatures.get(key)
        self.signatures[key] = id(function), now
        same = before is not None and before[0] == id(function)
        reason = None if before is None else explain_change(before[1], now, same=same)
        self.add_compilation(key, begin, reason)
        self.write_document()


def describe_arguments(function: Any, args: Any, kwds: Any) -> Signature:
    """Return what TensorFlow distinguishes of a call's arguments, by their names."""
    try:
        names = inspect.signature(function._python_function).bind(*args, **kwds).arguments
    except (TypeError, ValueError):
        names = {f"argument {i + 1}": value for i, value in enumerate(args)} | dict(kwds)
    described: Signature = {}
    for name, value in names.items():
        _describe(str(name), value, described)
    return described


def _describe(name: str, value: Any, into: Signature) -> None:
    if isinstance(value, dict):
        for key in value:
            _describe(f"{name}[{key!r}]", value[key], into)
    elif isinstance(value, (list, tuple)) and len(value) <= 16:
        for i, item in enumerate(value):
            _describe(f"{name}[{i}]", item, into)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        dtype = getattr(value.dtype, "name", value.dtype)
        into[name] = f"{dtype}[{', '.join(map(str, value.shape))}]"
    elif hasattr(value, "element_spec"):
        into[name] = f"batches of {value.element_spec}"
    elif isinstance(value, (int, float, str, bool, type(None))):
        into[name] = f"the Python value {str(value)[:40]}"
    else:
        into[name] = type(value).__name__


def explain_change(before: Signature, now: Signature, *, same: bool = False) -> str:
    """Return which arguments differ; of the ``same`` function, which objects must be new."""
    changed = [name for name in now if before.get(name) != now[name]]
    objects = [name for name, kind in now.items() if kind.isidentifier()] if same else []
    if objects and not changed:
        return f"{objects[0]}: {NEW_OBJECT} {now[objects[0]]}"
    if not changed:
        return "a new tf.function was made of the same code"
    shown = ", ".join(
        f"{name}: {now[name]} after {before.get(name, 'nothing')}" for name in changed[:2]
    )
    return f"{shown} and {len(changed) - 2} more" if len(changed) > 2 else shown


def install_step_hooks(events: Events, found: TrainingFunctions) -> TracedCalls:
    """Install the hooks of every step. Returns what records calls of traced functions."""
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.eager import backprop
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    pipelines = Pipelines(events)
    waits = InputWaits(events, pipelines)
    events.add_listener(waits)
    calls = TracedCalls(events, waits, found)
    _wrap_function(events, polymorphic_function.Function, found, calls)
    _wrap_gradient(events, backprop.GradientTape, found)
    _wrap_next(events, iterator_ops.OwnedIterator, pipelines)
    return calls


class TracedCalls:
    """Records calls of traced functions."""

    def __init__(self, events: Events, waits: InputWaits, found: TrainingFunctions) -> None:
        self.events, self.waits, self.found = events, waits, found
        self.retraces = RetraceRecorder(events)
        self.note_result: Callable[[Any, Any, int], None] | None = None
        """receives the arguments and the result of every call and the number of its steps, in a
        trial"""
        self.ended = 0
        """when the step that is noted ended, if it is one of several of a call"""

    def note_call(self, function: Any, call: tuple[Any, Any, Any], begin: int, end: int) -> None:
        """Record a call of a traced function outside any other: its arguments, by position and by
        name, and its result."""
        args, kwds, result = call
        traced: Traced | None = vars(function).get(OWN)
        if traced is None:
            traced = vars(function)[OWN] = Traced()
        traces = function.experimental_get_tracing_count()
        if traces != traced.traces:
            traced.traces = traces
            self.retraces.note_trace(function, args, kwds, begin)
        if traced.step is not None:
            steps = 1 if traced.batches == 1 else self._count_steps(traced, args)
            if self.note_result is not None:
                self.events.run_contained("tf loss", self.note_result, (args, kwds), result, steps)
            if steps == 1:
                self._note_step(traced.step, args, begin, end)
            else:
                self._note_steps(traced.step, args, (begin, end), steps)
        elif end - begin > SHORT_NS and self.events.steps:
            label = place_of(function)[2]
            number = self.events.recorder.name_number(label, wire.NO_ROLE)
            self.events.recorder.add((begin, end, thread(), number, OP))

    def _count_steps(self, traced: Traced, args: Any) -> int:
        """Return how many steps a call took: the last one of an epoch has what was left."""
        reading = self.waits.reading_of(args, FIT)
        batches = None if reading is None else self.waits.pipelines.batches_of(reading.iterator)
        left = 0 if reading is None or batches is None else batches - reading.taken
        return min(traced.batches, left) if left > 0 else traced.batches

    def _note_steps(self, step: Step, args: Any, call: tuple[int, int], steps: int) -> None:
        """Record the steps of one call: of equal length, as nobody sees where they end."""
        begin, end = call
        length = (end - begin) / steps
        for number in range(steps):
            self.ended = begin + round((number + 1) * length)
            self._note_step(step, args, begin + round(number * length), self.ended)
        self.ended = 0

    def _note_step(self, step: Step, args: Any, begin: int, end: int) -> None:
        events = self.events
        at_home = thread() == (events.home or thread())
        reading = self.waits.reading_of(args, step.label) if at_home else None
        if reading is None:
            step.kind = STEP
        else:
            step.kind = ANNOTATION
            reading.calls.append((begin, end))
            reading.taken += 1
            reading.joined = reading.joined or bool(self.ended)
        if id(step) == events.lead and at_home:
            events.add((events.named, begin, end))
        else:
            events.other_stepped(step, begin, end, step.kind)
        events.steps = steps = events.steps + 1
        if steps >= events.due:
            events.attend_step(step)


def _wrap_function(events: Events, kind: Any, found: TrainingFunctions, calls: TracedCalls) -> None:
    """Wrap the call of every ``tf.function``; only the outermost counts."""
    original, state = kind.__call__, found.calls

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwds: Any) -> Any:  # noqa: N807
        if (
            state.outermost is not None
            or self._run_functions_eagerly
            or "tf.function" in events.off
        ):
            return original(self, *args, **kwds)
        state.outermost = found.last = self
        begin = clock()
        try:
            result = original(self, *args, **kwds)
            end = clock()
        finally:
            state.outermost = None
        try:
            calls.note_call(self, (args, kwds, result), begin, end)
        except Exception as error:  # contained
            events.report_failure("tf.function", error)
        return result

    events.undo["tf.function"] = set_attribute(kind, "__call__", __call__)


def _wrap_gradient(events: Events, kind: Any, found: TrainingFunctions) -> None:
    """Wrap ``GradientTape.gradient``: in a trace it marks the function that trains, otherwise it is
    a backward pass."""
    from tensorflow.python.eager import context

    original, is_eager = kind.gradient, context.executing_eagerly

    @functools.wraps(original)
    def gradient(self: Any, *args: Any, **kwds: Any) -> Any:
        if "tf gradient" in events.off:
            return original(self, *args, **kwds)
        if not is_eager():
            events.run_contained("tf gradient", found.note_gradient)
            return original(self, *args, **kwds)
        begin = clock()
        try:
            return original(self, *args, **kwds)
        finally:
            try:
                if events.careful:
                    events.backward_ended(begin)
                else:
                    events.add_span(wire.BACKWARD, BACKWARD, OP, begin)
            except Exception as error:  # contained
                events.report_failure("tf gradient", error)

    events.undo["tf gradient"] = set_attribute(kind, "gradient", gradient)


def _wrap_next(events: Events, kind: Any, pipelines: Pipelines) -> None:
    """Wrap ``__next__`` of iterators over datasets, which loops of the job's own call."""
    from tensorflow.python.eager import context

    original, is_eager = kind.__next__, context.executing_eagerly

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        if "tf iterator" in events.off or not is_eager():
            return original(self)
        begin = clock()
        try:
            return original(self)
        finally:
            try:
                if type(self) is events.iterator and thread() == events.home:
                    events.add((events.batch, begin, clock()))
                else:
                    events.batch_taken(type(self), begin)
                if self is not pipelines.current:
                    pipelines.current = self
                    pipelines.note_iterator(self, LOOP)
            except Exception as error:  # contained
                events.report_failure("tf iterator", error)

    events.undo["tf iterator"] = set_attribute(kind, "__next__", __next__)


def wrap_optimizer(events: Events, kind: Any, name: str, found: TrainingFunctions) -> None:
    """Wrap the method of Keras' optimizers that applies gradients. In a trace it only tells the
    optimizer; otherwise it ends a step."""
    from tensorflow.python.eager import context

    original, is_eager, where = getattr(kind, name), context.executing_eagerly, "keras optimizer"

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwds: Any) -> Any:
        if not is_eager() or where in events.off:
            found.optimizer = self
            return original(self, *args, **kwds)
        begin = clock()
        result = original(self, *args, **kwds)
        end = clock()
        try:
            if id(self) == events.lead and thread() == events.home:
                events.add((events.named, begin, end))
            else:
                found.optimizer = self
                events.other_stepped(self, begin, end)
            events.steps = steps = events.steps + 1
            if steps >= events.due:
                events.attend_step(self)
        except Exception as error:  # contained
            events.report_failure(where, error)
        return result

    events.undo[where] = set_attribute(kind, name, apply)
