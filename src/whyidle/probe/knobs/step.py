"""Compiles the function of the job that takes a step's gradients, as a decorator would.

The function is found by the gradients that it takes: it must be called by its global name. Once a
call has shown that it takes each gradient once, it is compiled; if its first compiled call fails,
the job goes on with the function as it was. A function is left alone whose own Python does what a
trace would do once only, or twice where tracing fails.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

from ..core.own_files import FOLDER
from . import NO_FORM, KnobSession

COMPILE = "step.compile"
INSTALLED = ("site-packages", "dist-packages")
NO_FUNCTION = "no function of the job takes gradients uncompiled and is called by its name"
IN_LOOP = "its function takes gradients in a loop"
EFFECTS = "its Python code has side effects in each step (output, lists, variables, random numbers)"
EFFECT_NAMES = frozenset({"print", "write", "append", "extend", "item", "tolist", "numpy"})
"""functions and methods that put out or keep what a step computed, or read it"""
STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR")
MODULES = "a module of flax.nnx changes in the function: compile it by flax.nnx.jit"


class StepFunction:
    """Stands for a function that takes gradients."""

    def __init__(self, session: KnobSession, function: Any, compiler: Callable[..., Any]) -> None:
        self.session, self.function, self.compiler = session, function, compiler
        self.lines: list[int] | None = None
        """lines that took gradients in a whole call; None before one has begun"""
        self.compiled: Any = None
        self.settled = False
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function, compiled if it has been."""
        if not self.settled:
            if self.lines:
                return self._compile(args, named)
            self.lines = []
        return (self.compiled or self.function)(*args, **named)

    def _compile(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        code, lines = self.function.__code__, self.lines or []
        line = os.path.join(self.session.start, f"{code.co_filename}:{code.co_firstlineno}")
        self.settled = True
        why = IN_LOOP if len(set(lines)) < len(lines) else MODULES if _has_modules(args) else ""
        why = why or (EFFECTS if has_effects(code, self.function.__globals__) else "")
        if not why:
            try:
                compiled = self.compiler(self.function)
                out = compiled(*args, **named)
            except Exception as error:  # it cannot be traced
                why = f"its function cannot be traced ({type(error).__name__})"
            else:
                self.compiled, self.session.line = compiled, line
                self.session.run_contained([COMPILE], self.session.record_applied, COMPILE)
                self.session.line = None
                return out
        self.session.run_contained([COMPILE], self.session.decline_knobs, [COMPILE], why, line)
        return self.function(*args, **named)


def has_effects(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether a function, by its own code, does more than to compute its result. ``names`` are the
    globals of its module."""
    stores = any(each.opname in STORES for each in dis.get_instructions(code))
    modules = {m.__name__ for m in map(names.get, code.co_names) if isinstance(m, ModuleType)}
    draws = modules & {"random", "time"} or ("numpy" in modules and "random" in code.co_names)
    if stores or draws or EFFECT_NAMES & {*code.co_names}:
        return True
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return any(has_effects(each, names) for each in inner)


def _has_modules(args: tuple[Any, ...]) -> bool:
    kinds = (kind for arg in args for kind in type(arg).__mro__)
    return any(kind.__module__.startswith("flax.nnx") for kind in kinds)


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Look at who takes gradients outside compiled functions."""
    session.decline_knobs([knob for knob in edits if knob != COMPILE], NO_FORM)
    if edits.get(COMPILE):
        watch = GradientWatch(session)
        session.wait_for([COMPILE], NO_FUNCTION)
        session.after_import([COMPILE], "tensorflow", "GradientTape", watch.watch_tensorflow)
        session.after_import([COMPILE], "jax", "jit", watch.watch_jax)


class GradientWatch:
    """Puts a ``StepFunction`` in the place of functions that take gradients."""

    def __init__(self, session: KnobSession) -> None:
        self.session = session
        self.known: dict[CodeType, StepFunction] = {}

    def watch_tensorflow(self, tf: Any) -> None:
        """Look at gradients of tapes."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def gradient(*args: Any, **named: Any) -> Any:
                if tf.executing_eagerly():
                    self._note_gradient(tf.function, sys._getframe(1))
                return original(*args, **named)

            return gradient

        self.session.replace_function(tf.GradientTape, "gradient", make)

    def watch_jax(self, jax: Any) -> None:
        """Look at functions made by ``grad`` and ``value_and_grad``."""
        from jax._src.core import trace_state_clean

        def watch(gradient: Any) -> Any:
            @functools.wraps(gradient)
            def compute(*args: Any, **named: Any) -> Any:
                if trace_state_clean():
                    self._note_gradient(jax.jit, sys._getframe(1))
                return gradient(*args, **named)

            return compute if callable(gradient) else gradient

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args, **named: watch(original(*args, **named))

        for name in ("grad", "value_and_grad"):
            self.session.replace_function(jax, name, make)

    def _note_gradient(self, compiler: Callable[..., Any], frame: FrameType) -> None:
        self.session.run_contained([COMPILE], self._replace_caller, compiler, frame)

    def _replace_caller(self, compiler: Callable[..., Any], frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename.startswith(FOLDER):
            frame = frame.f_back
        if frame is None or any(folder in frame.f_code.co_filename for folder in INSTALLED):
            return
        code = frame.f_code
        if (step := self.known.get(code)) is not None:
            if step.lines is not None and not step.settled:
                step.lines.append(frame.f_lineno)
            return
        function = frame.f_globals.get(code.co_name)
        if getattr(function, "__code__", None) is code:
            self.known[code] = step = StepFunction(self.session, function, compiler)
            for module in list(sys.modules.values()):
                if getattr(module, "__dict__", {}).get(code.co_name) is function:
                    self.session.replace_function(module, code.co_name, lambda _: step)
