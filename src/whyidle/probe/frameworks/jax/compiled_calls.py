"""Watches calls of functions that ``jax.jit`` and ``jax.pmap`` made, and finds the training step.

The step is the outermost compiled call in whose trace a gradient was taken (``gradients`` reports
that). JAX computes beside the thread that calls it, so the end of a call says nothing: whether the
device was idle is asked of one output when the next step is called, which costs a fraction of a
microsecond. How long the device works is measured in a few steps, in which the probe waits for the
output; it waits only where the device was found idle, so that a loop that keeps it busy is never
disturbed.
"""

from __future__ import annotations

import functools
import inspect
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import MethodType
from typing import Any

from ... import wire
from ...core.burst_budget import BUDGET
from ...core.events import Events
from ...core.recorder import ANNOTATION, OP, name_tag
from ...core.wrapped_functions import set_attribute
from ...wire import ProcessFacts

HOOK, AHEAD = "compiled calls", "compilation ahead of time"
FIRST_CALL = 3
"""the call of a step from which on it is measured: the first ones compile"""
DESCRIBED = 2
"""the number of calls after which the inputs and outputs of a step are looked at"""
SHORT_NS = 20_000
"""calls of other compiled functions that take less are not recorded"""

clock, thread = time.perf_counter_ns, threading.get_ident
Getter = tuple[Callable[[Any, Any], Any], Any]


class CompiledStep:
    """A function of the job that is a training step, however often it is defined and compiled."""

    __module__ = "jax"

    def __init__(self, name: str) -> None:
        self.__name__ = name


class CompiledCalls:
    """What the compiled functions of a process share."""

    def __init__(self, events: Events, config: Any) -> None:
        self.events, self.config = events, config
        self.outer: dict[int, CompiledCall] = {}
        """thread -> its outermost compiled call"""
        self.wait: Callable[[Any], Any] = _wait_for
        self.steps: dict[Any, CompiledStep] = {}
        """code of a function -> the step that it is"""
        self.output: Any = None
        """an output of the last step"""
        self.ended = 0
        """when the call of the last step returned, ns"""
        self.due = self.spent = self.begun = 0
        self.note_result: Callable[[Any, Any], Any] | None = None
        """receives arguments and result of each step and may change the result, in a trial"""
        self.facts: ProcessFacts = {}
        """what the outputs of a step are like"""
        self.pages: tuple[int, int] | None = None
        """steps when they were looked at, and how often the process had taken a page of memory"""
        self.idle = self.tag_name(wire.DEVICE_IDLE, wire.DEVICE_IDLE, ANNOTATION)
        self.after_call: Callable[[CompiledCall], None] | None = None
        """called after each outermost call"""

    # -- what happens around every step -------------------------------------------------------

    def ask_device(self) -> bool:
        """Record the moment if the device has done all steps; return whether it has."""
        output = self.output
        if output is None or thread() != self.events.home:
            return False
        try:
            idle: bool = output.is_ready()
        except RuntimeError:  # it was donated or deleted
            return False
        if idle:
            self.note_idle(self.ended)
        return idle

    def note_idle(self, busy_until: int) -> None:
        """Record that the device is idle now. ``busy_until`` is when it last was not, ns."""
        self.events.add((self.idle, busy_until, clock()))

    def note_read(self, read: int) -> None:
        """Record that the device was idle after a read, ns, unless a later step keeps it busy."""
        try:
            if self.output is not None and self.output.is_ready():
                self.note_idle(read)
        except RuntimeError:  # it was donated or deleted
            self.output = None

    def end_step(self, call: CompiledCall, begin: int, out: Any, idle: bool) -> None:
        """Record a step that the thread has called, and look at its output."""
        events, end = self.events, clock()
        if self.after_call is not None:
            self.after_call(call)
        if id(call.step) == events.lead and thread() == events.home:
            events.add((events.named, begin, end))
        else:
            events.other_stepped(call.step, begin, end)
        self.output, self.ended = call.find_output(out), end
        call.calls += 1
        due = idle and call.calls > FIRST_CALL and end > self.due and self.output is not None
        if due and not self.config.jax_disable_jit:  # else the call itself is the work
            self._measure_execution(call, begin)
        events.steps = steps = events.steps + 1
        if steps >= events.due:
            events.attend_step(call.step)

    def _measure_execution(self, call: CompiledCall, begin: int) -> None:
        """Wait for the step that was called on an idle device."""
        self.begun = self.begun or begin
        self.wait(self.output)
        end = clock()
        self.events.add((self.tag_name(wire.EXECUTION, call.label, OP), begin, end))
        self.note_idle(end)
        self.spent += end - self.ended
        self.due = self.begun + int(self.spent / BUDGET)

    def describe_step(self, inputs: Any, outputs: Any) -> None:
        """Note what the outputs of a step are, and which inputs did not give their memory."""
        from jax import tree_util

        kept: Counter[Any] = Counter()
        for leaf in tree_util.tree_leaves(inputs):
            if hasattr(leaf, "is_deleted") and not leaf.is_deleted():
                kept[leaf.shape, leaf.dtype] += 1
        made = [leaf for leaf in tree_util.tree_leaves(outputs) if hasattr(leaf, "is_deleted")]
        sizes, copied = Counter[str](), 0
        for leaf in made:
            if "float" in str(leaf.dtype):
                sizes[str(leaf.dtype)] += leaf.nbytes
            if kept[leaf.shape, leaf.dtype] > 0:
                kept[leaf.shape, leaf.dtype] -= 1
                copied += leaf.nbytes
        self.facts = {"copied_bytes": copied}
        self.pages = self.events.steps, resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        if sizes:
            self.facts["optimizer"] = {
                "name": "",
                "tensors": len(made),
                "elements": sum(leaf.size for leaf in made),
                "groups": 1,
                "foreach": None,
                "fused": None,
                "differentiable": None,
                "momentum": None,
                "dtype": max(sizes, key=lambda kind: sizes[kind]),
                "unread": 0,
            }

    def end_other(self, call: CompiledCall, begin: int) -> None:
        """Record a call of a compiled function that is no step."""
        if self.after_call is not None:
            self.after_call(call)
        if clock() - begin > SHORT_NS and self.events.steps:
            self.events.add_span(wire.NO_ROLE, call.label, OP, begin)

    def tag_name(self, role: str, label: str, kind: int) -> int:
        """Return the tag of a name in short spans."""
        return name_tag(self.events.recorder.name_number(label, role), kind)

    # -- at the time of tracing ---------------------------------------------------------------

    def mark_gradient(self) -> bool:
        """Note that a gradient is taken; return whether a compiled call is being traced."""
        call = self.outer.get(thread())
        if call is not None:
            call.is_step = True
        return call is not None

    def watch(self, made: Any) -> Any:
        """Return what ``jax.jit`` or ``jax.pmap`` made, watched."""
        if hasattr(made, "lower"):
            return JittedFunction(self, made)
        if callable(made):  # ``jax.jit(static_argnums=0)`` makes a decorator
            return lambda *args, **kwargs: self.watch(made(*args, **kwargs))
        return made


class CompiledCall:
    """Stands for a compiled function and records its calls.

    JAX calls such functions from C++, so that no hook of Python sees them: only an object in their
    place does. Its class says that it is the function's, so ``isinstance`` finds no difference.
    """

    __class__: Any = property(lambda self: type(self.function))

    def __init__(self, calls: CompiledCalls, function: Any, origin: Any = None) -> None:
        self.function, self._calls = function, calls
        self.is_step, self.calls = bool(origin and origin.is_step), 0
        self.source = inspect.unwrap(origin or function)
        """the job's own function"""
        self._path: list[Getter] | None = None
        functools.update_wrapper(self, function)
        self.name = str(getattr(origin or function, "__name__", "function"))
        self.label = f"jit({self.name})"
        code, own = getattr(self.source, "__code__", None), CompiledStep(self.name)
        self.step = own if code is None else calls.steps.setdefault(code, own)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and record the call if it is the outermost one."""
        calls = self._calls
        outer, own = calls.outer, thread()
        if own in outer or HOOK in calls.events.off:
            return self.function(*args, **kwargs)
        outer[own] = self
        idle = self.is_step and run_contained(calls, calls.ask_device)
        begin = clock()
        try:
            out = self.function(*args, **kwargs)
        finally:
            del outer[own]
        if self.is_step:
            if self.calls == DESCRIBED:
                run_contained(calls, calls.describe_step, (args, kwargs), out)
            if calls.note_result is not None:
                out = calls.note_result((args, kwargs), out)
            run_contained(calls, calls.end_step, self, begin, out, idle)
        else:
            run_contained(calls, calls.end_other, self, begin)
        return out

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["function"], name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.function.__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return repr(self.function)

    def find_output(self, out: Any) -> Any:
        """Return the smallest array of the outputs; None if there is none."""
        if self._path is None or not self.calls:
            self._path = _path_to_smallest(out)
        try:
            for get, key in self._path:
                out = get(out, key)
        except (KeyError, IndexError, AttributeError, TypeError):  # its structure has changed
            self._path = _path_to_smallest(out)
            return None
        return out if hasattr(out, "is_ready") else None


class JittedFunction(CompiledCall):
    """What ``jax.jit`` made. What is compiled from it ahead of time is watched, too."""

    def __init__(self, calls: CompiledCalls, function: Any) -> None:
        super().__init__(calls, function)
        vars(self).pop("lower", None)  # some versions of JAX keep it among the attributes

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Lower the function for these arguments."""
        outer, own = self._calls.outer, thread()
        if own in outer:
            return self.function.lower(*args, **kwargs)
        outer[own] = self  # it is traced now
        try:
            lowered = self.function.lower(*args, **kwargs)
        finally:
            del outer[own]
        self._calls.events.run_contained(AHEAD, self._watch_lowered, lowered)
        return lowered

    def _watch_lowered(self, lowered: Any) -> None:
        original = lowered.compile

        @functools.wraps(original)
        def compile_ahead(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            watched = run_contained(self._calls, CompiledCall, self._calls, made, self)
            return made if watched is None else watched

        lowered.compile = compile_ahead


def _wait_for(output: Any) -> None:
    output.block_until_ready()


def run_contained(calls: CompiledCalls, work: Callable[..., Any], *args: Any) -> Any:
    """Do a hook's work; no fault of it reaches the job."""
    try:
        return work(*args)
    except Exception as error:  # contained
        calls.events.report_failure(HOOK, error)
    return None


def _path_to_smallest(out: Any) -> list[Getter]:
    """How to get from a call's result to its smallest array, of those nearest to the top."""
    from jax import tree_util

    leaves = [
        (len(path), leaf.nbytes, number, path)
        for number, (path, leaf) in enumerate(tree_util.tree_flatten_with_path(out)[0])
        if hasattr(leaf, "is_ready") and hasattr(leaf, "nbytes")
    ]
    path = min(leaves)[3] if leaves else ()
    return [_getter(key) for key in path]


def _getter(key: Any) -> Getter:
    for field, get in (("name", getattr), ("idx", _item), ("key", _item)):
        if hasattr(key, field):
            return get, getattr(key, field)
    raise TypeError(f"unknown key of a tree: {key!r}")


def _item(holder: Any, key: Any) -> Any:
    return holder[key]


def install_call_hooks(events: Events, jax: Any) -> CompiledCalls:
    """Watch all functions that the job compiles from now on."""
    calls = CompiledCalls(events, jax.config)
    undoes = [
        set_attribute(jax, name, _wrap_compiler(calls, getattr(jax, name)))
        for name in ("jit", "pmap")
        if hasattr(jax, name)
    ]

    def undo() -> None:
        for remove in undoes:
            remove()
        calls.output = None

    events.undo[HOOK] = undo
    return calls


def _wrap_compiler(calls: CompiledCalls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile_function(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        watched = run_contained(calls, calls.watch, made)
        return made if watched is None else watched

    return compile_function
