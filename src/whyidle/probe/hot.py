"""The hooks of every step: the next batch, the backward pass, the optimizer. Written out in full.

A Python call costs a step up to a quarter of a microsecond once the job's own code has emptied the
processor's caches, so nothing here calls what it can do itself, and until ``torch.compile`` is
used nothing asks whether it traces. Like everywhere, a fault takes the hook off and never reaches
the job. Names keep their numbers in the recorder, which a forked child begins anew.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import device, guard
from .recorder import ANNOTATION, OP, STEP

if TYPE_CHECKING:
    from .loop import Loop

clock, thread, exception = time.perf_counter_ns, threading.get_ident, sys.exc_info

Hook = Callable[[Any, Any, Any], None]
Asks = Callable[[], bool] | None

BACKWARD = "whyidle::backward"


def install(loop: Loop) -> None:
    """Wrap what a training loop calls in every step."""
    import torch
    from torch.utils.data import dataloader

    _next_batch(loop, dataloader._BaseDataLoaderIter)
    _backward(loop, torch.autograd)
    _optimizer(loop)


def _next_batch(loop: Loop, kind: Any) -> None:
    """``kind`` is the class that the iterators of all loaders share."""
    original, recorder = kind.__next__, loop.recorder

    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807
        begin = clock()
        measured = loop.device
        if measured is not None and measured.open:
            loop.mark(device.ASKED, begin)
        try:
            return original(self)
        finally:
            try:
                end = clock()
                number = loop.numbers.get(type(self))
                if number is None:
                    number = loop.iterates(type(self))
                recorder.add((begin, end, thread(), number, ANNOTATION))
                loop.waited += end - begin
                if measured is not None and measured.open:
                    loop.mark(device.BATCH, begin)
                evaluation = loop.evaluating
                if evaluation is not None and exception()[0] is StopIteration:
                    evaluation.closes()
            except Exception as error:  # contained
                loop.failed("loader", error)

    kind.__next__ = __next__
    loop.undo["loader"] = lambda: setattr(kind, "__next__", original)


def _backward(loop: Loop, autograd: Any) -> None:
    """``Tensor.backward`` ends in ``torch.autograd.backward``."""
    original, recorder = autograd.backward, loop.recorder
    is_compiling: Asks = None

    def ask() -> None:
        nonlocal is_compiling
        is_compiling = guard.compiling()

    loop.asking.append(ask)

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling is not None and is_compiling():  # there is nothing to see in here
            return original(*args, **kwargs)
        begin = clock()
        measured = loop.device
        if measured is not None and measured.open:
            loop.mark(device.BACKWARD, begin)
        try:
            return original(*args, **kwargs)
        finally:
            try:
                end, number = clock(), loop.numbers.get(BACKWARD)
                if number is None:
                    number = loop.numbers[BACKWARD] = loop.recorder.number(BACKWARD)
                recorder.add((begin, end, thread(), number, OP))
                if measured is not None and measured.open:
                    loop.mark(device.BACKWARD_END, begin)
                if loop.evaluating is not None:
                    loop.evaluating.ends()
                if not loop.steps:
                    loop.retreats()
            except Exception as error:  # contained
                loop.failed("backward", error)

    autograd.backward = backward
    loop.undo["backward"] = lambda: setattr(autograd, "backward", original)


def _optimizer(loop: Loop) -> None:
    """The hooks that PyTorch calls around every optimizer's step."""
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    begun = loop.optimizing
    is_compiling: Asks = None

    def ask() -> None:
        nonlocal is_compiling
        is_compiling = guard.compiling()

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling is None or not is_compiling():
            begun.append(clock())

    loop.asking.append(ask)
    first = register_optimizer_step_pre_hook(before)
    last = register_optimizer_step_post_hook(_after(loop))

    def undo() -> None:
        first.remove()
        last.remove()

    loop.undo["optimizer"] = undo


def _after(loop: Loop) -> Hook:
    recorder, begun, ends = loop.recorder, loop.optimizing, loop.ends
    is_compiling: Asks = None

    def ask() -> None:
        nonlocal is_compiling
        is_compiling = guard.compiling()

    loop.asking.append(ask)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling is not None and is_compiling():
            return
        end = clock()
        try:
            if id(optimizer) == loop.lead:
                ends.append(end)
                number = loop.named
            else:
                number = loop.other(optimizer)
            recorder.add((begun.pop(), end, thread(), number, STEP))
            loop.steps = steps = loop.steps + 1
            if steps >= loop.due:
                loop.notable(optimizer)
        except Exception as error:  # contained
            loop.failed("optimizer", error)
        if loop.device is not None:
            loop.ended(optimizer)
        if loop.boundary is not None:
            loop.contained("burst", loop.boundary, optimizer)

    return after
