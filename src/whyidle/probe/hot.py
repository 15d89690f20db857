"""The hooks of every step: the next batch, the backward pass, the optimizer. Written out in full.

A Python call costs a step up to a quarter of a microsecond once the job's own code has emptied the
processor's caches, so nothing here calls what it can do itself. Like everywhere, a fault takes the
hook off and never reaches the job. Names keep their numbers in the recorder, which a forked child
begins anew.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import device, guard
from .debugging import LOOKS
from .recorder import ANNOTATION, OP, STEP

if TYPE_CHECKING:
    from .loop import Loop

clock, thread, exception = time.perf_counter_ns, threading.get_ident, sys.exc_info

Hook = Callable[[Any, Any, Any], None]

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
    original = kind.__next__

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
                loop.recorder.add((begin, end, thread(), number, ANNOTATION))
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
    original, is_compiling = autograd.backward, guard.compiling()

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # traced by torch.compile: then there is nothing to see in here
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
                loop.recorder.add((begin, end, thread(), number, OP))
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

    is_compiling = guard.compiling()

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            loop.optimizing.append(clock())

    first = register_optimizer_step_pre_hook(before)
    last = register_optimizer_step_post_hook(_after(loop, is_compiling))

    def undo() -> None:
        first.remove()
        last.remove()

    loop.undo["optimizer"] = undo


def _after(loop: Loop, compiling: Callable[[], bool]) -> Hook:
    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if compiling():
            return
        end, key = clock(), id(optimizer)
        try:
            number = loop.numbers.get(key)
            if number is None:
                number = loop.optimizes(optimizer)
            loop.recorder.add((loop.optimizing.pop(), end, thread(), number, STEP))
            loop.steps = steps = loop.steps + 1
            if steps >= LOOKS[loop.looks]:
                loop.notable(optimizer)
        except Exception as error:  # contained
            loop.failed("optimizer", error)
        if loop.device is not None:
            loop.ended(optimizer)
        bursts = loop.boundary
        if bursts is None:
            return
        if key == bursts.lead and bursts.wanted is None:
            bursts.steps += 1
            bursts.ends.append(end)
        else:
            loop.contained("burst", bursts.boundary, optimizer)

    return after
