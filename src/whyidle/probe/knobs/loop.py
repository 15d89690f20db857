"""Micro-batches joined: fewer and larger ones, and as many samples to a step as before.

Done where a framework makes the micro-batches from its options, as Hugging Face's ``Trainer`` does;
a loop of the script's own is left alone. What its subclass does by itself with batches or losses is
not known here, so that such a one is left as well, and so are losses that would be others
(``_joinable``).
"""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Callable
from typing import Any

from ..core.import_hooks import once_there
from . import DeclinedError, Hand
from ._joinable import Sizes, why_not

KNOB = "loop.microbatch_times"
HOME = "transformers.trainer"


class Ours(int):
    """A number as it was set here, and what it was. It is told from the same number set by a script
    since, stays what it is in a copy, and is saved as a number like all others."""

    was: int

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)

    def __deepcopy__(self, _: Any) -> Ours:
        return self


class Joined:
    """The options of one process's trainers, of which several may share the same."""

    def __init__(self, hand: Hand, times: int) -> None:
        self.hand, self.times = hand, times
        self.kept: list[weakref.ref[Any]] = []
        """options that a trainer counts on as they are"""

    def join(self, trainer: Any, bound: dict[str, Any]) -> Any:
        """Change the options that a trainer is about to be made with; others where it needs some of
        its own, as those that it shares are changed for another."""
        args = bound.get("args")
        if args is None:
            self.hand.decline([KNOB], "the trainer is made without options")
            return None
        self.kept = [one for one in self.kept if one() is not None]
        if any(one() is args for one in self.kept):
            return None
        found = _sizes(args)
        size, steps = (getattr(one, "was", one) for one in found)
        if why := why_not(type(trainer), bound, (size, steps), self.times):
            self.hand.decline([KNOB], why)
            if any(type(one) is Ours for one in found):
                return _set(copy.copy(args), size, steps)
            self.kept.append(weakref.ref(args))
        elif any(type(one) is not Ours for one in found):
            _set(args, _ours(size, size * self.times), _ours(steps, steps // self.times))
            self.hand.multiplies(KNOB, size)
            self.hand.took(KNOB)
        return None


def _ours(was: int, now: int) -> Ours:
    made = Ours(now)
    made.was = was
    return made


def _sizes(args: Any) -> Sizes:
    return args.per_device_train_batch_size, args.gradient_accumulation_steps


def _set(args: Any, size: int, steps: int) -> Any:
    args.per_device_train_batch_size, args.gradient_accumulation_steps = size, steps
    return args


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have trainers made with joined micro-batches."""
    times = float(edits[KNOB])
    if times != int(times) or times < 1:
        raise DeclinedError(f"micro-batches are joined by whole numbers, not by {times:g}")
    joined = Joined(hand, int(times))
    hand.waits([KNOB], "the loop over micro-batches is the script's own")

    def adopt(module: Any) -> None:
        hand.contained([KNOB], hand.replace, module.Trainer, "__init__", make)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            known = {name: to for name, to in kwargs.items() if name in signature.parameters}
            try:  # of older keywords only a decorator knows
                bound = signature.bind(self, *args, **known).arguments
            except TypeError:  # the script's own mistake, which the trainer tells better
                return original(self, *args, **kwargs)
            own = hand.contained([KNOB], joined.join, self, bound)
            if own is not None and "args" in kwargs:
                kwargs["args"] = own
            elif own is not None:
                args = (args[0], own, *args[2:])
            return original(self, *args, **kwargs)

        return init

    hand.undo.append(once_there(HOME, "Trainer", adopt))
