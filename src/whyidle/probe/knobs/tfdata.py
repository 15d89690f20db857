"""Changes pipelines of tf.data as if the script had written them so."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import io
import random
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

from . import NO_FORM, KnobSession
from ._source_line import find_source_line

PLACE = "tensorflow.python.data.ops"
CALLS = "tfdata.map_calls"
INSTALLED = ("site-packages", "dist-packages", "lib/python3")
STATEFUL = (io.IOBase, types.GeneratorType, random.Random)
DEEPEST = 3
"""functions that call each other are looked into as deep as this"""


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Change datasets that the job makes from now on."""
    session.decline_knobs([knob for knob in edits if knob != CALLS], NO_FORM)
    if CALLS not in edits:
        return

    def change_iterators(module: Any) -> None:
        live: list[weakref.ref[Any]] = []
        _remember_iterators(session, module.OwnedIterator, live)
        atexit.register(session.run_contained, edits, close_iterators, session, live)

    session.after_import(
        edits,
        f"{PLACE}.dataset_ops",
        "DatasetV2",
        lambda module: _parallel_calls(session, module.DatasetV2, edits[CALLS]),
    )
    session.after_import(edits, f"{PLACE}.iterator_ops", "OwnedIterator", change_iterators)


def _own_line(session: KnobSession, made: Any) -> str | None:
    """The line of the job that calls, two frames above; None if a library does."""
    line = session.run_contained((), find_source_line, sys._getframe(2), made, session.start)
    return None if line is None or any(part in line for part in INSTALLED) else line


def _parallel_calls(session: KnobSession, kind: Any, calls: int) -> None:
    """Give ``map`` as many parallel calls where the job has not said how many."""
    signature = inspect.signature(kind.map)

    def make(original: Any) -> Any:
        def call_in_parallel(self: Any, *args: Any, **named: Any) -> Any:
            session.line = _own_line(session, self)
            try:
                bound = signature.bind(self, *args, **named)
            except TypeError:  # the script's own mistake, which TensorFlow reports better
                return original(self, *args, **named)
            given = bound.arguments
            free = given.get("num_parallel_calls") is None and not given.get("synchronous")
            if session.line is not None and free and _is_allowed(given["map_func"]):
                given["num_parallel_calls"] = calls
                session.run_contained([CALLS], session.record_applied, CALLS)
            try:
                return original(*bound.args, **bound.kwargs)
            finally:
                session.line = None

        def _is_allowed(function: Any) -> bool:
            why = session.run_contained([CALLS], explain_unsafe, function)
            if why:
                session.decline_knobs([CALLS], why)
            return why == ""  # None: it could not be told

        return call_in_parallel

    session.replace_function(kind, "map", make)
    session.wait_for([CALLS], "the job makes no map without a number of parallel calls")


def explain_unsafe(function: Any) -> str:
    """Return why several threads should not call a function; empty if nothing speaks against it."""
    for name, value in _held_values(function, DEEPEST):
        if isinstance(value, STATEFUL) or type(value).__module__.startswith("numpy.random"):
            return f"the function uses {name}, a {type(value).__name__} that threads would share"
    return ""


def _held_values(function: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield what a function refers to, by name, and what functions among that refer to."""
    function = getattr(function, "func", function)  # functools.partial
    code = getattr(function, "__code__", None)
    if code is None or depth == 0:
        return
    globals_ = getattr(function, "__globals__", {})
    held = {name: globals_[name] for name in code.co_names if name in globals_}
    with contextlib.suppress(ValueError):  # a variable that is not set yet
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            held[name] = cell.cell_contents
    for name, value in held.items():
        yield name, value
        own = isinstance(value, types.FunctionType)
        if own and not any(part in value.__code__.co_filename for part in INSTALLED):
            yield from _held_values(value, depth - 1)


def _remember_iterators(session: KnobSession, kind: Any, live: list[weakref.ref[Any]]) -> None:
    def remember(iterator: Any) -> None:
        live[:] = [one for one in live if one() is not None]
        live.append(weakref.ref(iterator))

    def make(original: Any) -> Any:
        def init(self: Any, *args: Any, **named: Any) -> None:
            original(self, *args, **named)
            session.run_contained((), remember, self)

        return init

    session.replace_function(kind, "__init__", make)


def close_iterators(session: KnobSession, live: list[weakref.ref[Any]]) -> None:
    """Release the iterators that are still alive at the end: a process whose pipeline runs Python
    in other threads would wait for these threads forever, and they for the interpreter."""
    for one in live:
        iterator = one()
        if iterator is not None:
            session.run_contained((), release_iterator, iterator)


def release_iterator(iterator: Any) -> None:
    """Let go of what an iterator holds."""
    iterator._iterator_resource = iterator._components = None
