"""Keeps activations instead of computing them again in the backward pass."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import KnobSession

OWN = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")
"""arguments of ``torch.utils.checkpoint.checkpoint`` that are not the function's"""
Buffer = tuple[Any, str, Any, int]
"""module, name, tensor, and version of the tensor"""
FIRST = "the first step still recomputes, to check that no buffer of the model changes"


def keep_activations(session: KnobSession, knob: str) -> None:
    """Call checkpointed functions directly: the same numbers, but the memory of their activations.

    Calls stay unchanged if the script chooses what to keep (``context_fn``), or if no input of the
    reentrant form needs a gradient, as its parameters then get none either. The knob declines if
    modules change their buffers, as batch norm and spectral norm do: recomputation changes them
    twice in each step. That is checked in the first step and at the first call of each function.
    """
    import torch
    from torch.utils import checkpoint as home

    first = FirstCalls(session, knob)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
            older = kwargs.get("use_reentrant") is not False
            needed = any(getattr(argument, "requires_grad", False) for argument in args)
            left = "context_fn" in kwargs or (older and not needed) or knob in session.declined
            if left or not torch.is_grad_enabled():
                return original(function, *args, **kwargs)
            if not first.was_checked(function):
                with first.watch_buffers(function):
                    return original(function, *args, **kwargs)
            session.record_applied(knob)
            return function(*args, **{k: v for k, v in kwargs.items() if k not in OWN})

        return checkpoint

    session.replace_function(home, "checkpoint", make)


class FirstCalls:
    """Checks whether checkpointed functions change buffers, and then declines the knob."""

    def __init__(self, session: KnobSession, knob: str) -> None:
        self.session, self.knob = session, knob
        self.known: set[Any] = set()
        """code objects of checked functions: many functions are created anew for each call"""
        self.stepped = False
        """whether a whole step was checked: one code object may call several modules"""
        # where the script compiles, PyTorch warns that such a hook may be called twice: harmless
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global")
        session.wait_for([knob], lambda: FIRST if self.known else "")
        session.after_steps(self._note_step)

    def _note_step(self, _: int) -> None:
        self.stepped = bool(self.known)

    def was_checked(self, function: Any) -> bool:
        """Whether a function was checked before."""
        return self.stepped and _code_of(function) in self.known

    @contextlib.contextmanager
    def watch_buffers(self, function: Any) -> Iterator[None]:
        """Check whether the buffers of the modules that are called meanwhile change."""
        import torch
        from torch.nn.modules.module import register_module_forward_pre_hook

        held: dict[int, Buffer] = {}

        def note_buffers(module: Any, _: Any = None) -> None:
            for name, buffer in module.named_buffers(recurse=False):
                if not buffer.is_inference() and id(buffer) not in held:
                    held[id(buffer)] = (module, name, buffer, buffer._version)

        whole = getattr(function, "__self__", function)
        for part in whole.modules() if isinstance(whole, torch.nn.Module) else ():
            note_buffers(part)
        handle = register_module_forward_pre_hook(note_buffers)
        try:
            yield
        finally:
            handle.remove()
        self.known.add(_code_of(function))
        self._decline_changes(held.values())

    def _decline_changes(self, held: Iterable[Buffer]) -> None:
        for module, name, buffer, version in held:
            if buffer._version != version or getattr(module, name, None) is not buffer:
                kind = type(module).__name__
                why = f"{kind} changes its buffer {name!r} in each of the two calls of a step"
                self.session.decline_knobs([self.knob], why)
                return


def _code_of(function: Any) -> Any:
    inner = getattr(function, "__func__", function)
    return getattr(inner, "__code__", type(function))
