"""Why a ``tf.function`` was traced again: the argument that changed."""

from __future__ import annotations

import inspect
from typing import Any

from ...core.compilation_log import CompilationLog
from ...core.events import Events
from .training_function import place_of

Signature = dict[str, str]
"""argument -> its shape and type, or its value if it is none of TensorFlow's"""
NEW_OBJECT = "another object of class"
MOST_VALUE = 40
"""characters of a value"""


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
        into[name] = f"the Python value {str(value)[:MOST_VALUE]}"
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
