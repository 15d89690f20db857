"""Activations that are kept instead of computed again in the backward pass."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import KnobSession

OWN = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")
"""arguments of ``torch.utils.checkpoint.checkpoint`` that are not the function's"""
Buffer = tuple[Any, str, Any, int]
"""whose it is, its name, itself, and how often it has been changed"""
FIRST = "what is checkpointed is left as it is in the first step, to see that it counts nothing"


def keep_activations(hand: KnobSession, knob: str) -> None:
    """Call what is checkpointed directly: the same numbers, and the memory of its activations. Left
    alone where the script chooses itself what is kept (``context_fn``), where the older form is
    given nothing that needs a gradient: then it gives none to the parameters either; and where its
    modules change their buffers, as batch norm and spectral norm do: computed twice they change
    them twice in each step. That is seen in the first step, and the first time of each function."""
    import torch
    from torch.utils import checkpoint as home

    first = FirstCalls(hand, knob)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
            older = kwargs.get("use_reentrant") is not False
            needed = any(getattr(one, "requires_grad", False) for one in args)
            left = "context_fn" in kwargs or (older and not needed) or knob in hand.declined
            if left or not torch.is_grad_enabled():
                return original(function, *args, **kwargs)
            if not first.heard(function):
                with first.listening(function):
                    return original(function, *args, **kwargs)
            hand.record_applied(knob)
            return function(*args, **{k: v for k, v in kwargs.items() if k not in OWN})

        return checkpoint

    hand.replace_function(home, "checkpoint", make)


class FirstCalls:
    """Whether what is checkpointed changes buffers; then the knob is declined."""

    def __init__(self, hand: KnobSession, knob: str) -> None:
        self.hand, self.knob = hand, knob
        self.known: set[Any] = set()
        """the code of functions: many are made anew for each call"""
        self.stepped = False
        """whether all of a step was listened to: one code may call other modules"""
        # where the script compiles, PyTorch says of such a hook that it may be called twice: it may
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global")
        hand.wait_for([knob], lambda: FIRST if self.known else "")
        hand.after_steps(self._after)

    def _after(self, _: int) -> None:
        self.stepped = bool(self.known)

    def heard(self, function: Any) -> bool:
        """Whether it was listened to before."""
        return self.stepped and _code(function) in self.known

    @contextlib.contextmanager
    def listening(self, function: Any) -> Iterator[None]:
        """See which modules are called meanwhile, and whether their buffers change."""
        import torch
        from torch.nn.modules.module import register_module_forward_pre_hook

        held: dict[int, Buffer] = {}

        def note(module: Any, _: Any = None) -> None:
            for name, one in module.named_buffers(recurse=False):
                if not one.is_inference() and id(one) not in held:
                    held[id(one)] = (module, name, one, one._version)

        whole = getattr(function, "__self__", function)
        for part in whole.modules() if isinstance(whole, torch.nn.Module) else ():
            note(part)
        handle = register_module_forward_pre_hook(note)
        try:
            yield
        finally:
            handle.remove()
        self.known.add(_code(function))
        self._judge(held.values())

    def _judge(self, held: Iterable[Buffer]) -> None:
        for module, name, one, version in held:
            if one._version != version or getattr(module, name, None) is not one:
                kind = type(module).__name__
                why = f"{kind} changes {name!r} with each call, and is called twice in each step"
                self.hand.decline_knobs([self.knob], why)
                return


def _code(function: Any) -> Any:
    inner = getattr(function, "__func__", function)
    return getattr(inner, "__code__", type(function))
