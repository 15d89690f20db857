"""The hooks of every step: the next batch, the backward pass, the optimizer. Written out in full.

A Python call costs a step up to a quarter of a microsecond once the job's own code has emptied the
processor's caches, and so does every line of memory. So nothing here calls what it can do itself,
all that is read in every step lies side by side (``Hot``), and what is rare (an evaluation, a
measured step, another thread) goes another way that may call what it likes: ``Loop.careful``.
Like everywhere, a fault takes the hook off and never reaches the job.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import wire
from ...core.patching import put
from ...core.recorder import ANNOTATION, OP
from . import device_marks

if TYPE_CHECKING:
    from ...core.events import Loop

clock, thread, exception = time.perf_counter_ns, threading.get_ident, sys.exc_info

BACKWARD = "whyidle::backward"


class Hot:
    """What hooks read in every step. A base class, for its slots come first in memory."""

    __slots__ = (
        "add",
        "asks",
        "backward",
        "batch",
        "careful",
        "due",
        "home",
        "iterator",
        "lead",
        "named",
        "steps",
    )

    add: Callable[[tuple[int, int, int]], None]
    """keeps a span of the home thread: its tag, begin and end"""
    asks: Callable[[], bool] | None
    """whether a hook is being traced; None until ``torch.compile`` is used, as it takes its time"""
    careful: bool
    """whether there may be more to do than to keep spans"""
    due: int
    """the step after which there is"""
    home: int
    """the thread whose spans are kept the short way"""
    backward: int
    """the tag of backward passes"""
    iterator: type | None
    """the class of the last iterator, and the tag of its batches"""
    batch: int
    lead: int | None
    """the id of the optimizer that steps first, and the tag of its steps"""
    named: int
    steps: int
    """of all optimizers"""


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
        if "loader" in loop.off:
            return original(self)
        if loop.careful:
            return carefully(self)
        begin = clock()
        try:
            return original(self)
        finally:
            try:
                if type(self) is loop.iterator and thread() == loop.home:
                    loop.add((loop.batch, begin, clock()))
                else:
                    loop.took(type(self), begin)
            except Exception as error:  # contained
                loop.failed("loader", error)

    def carefully(self: Any) -> Any:
        if loop.evaluating is not None:
            loop.contained("evaluation end", loop.evaluating.asked)
        begin = clock()
        loop.mark(device_marks.ASKED, begin)
        try:
            return original(self)
        finally:
            try:
                loop.took(type(self), begin)
                loop.mark(device_marks.BATCH, begin)
                if loop.evaluating is not None and exception()[0] is StopIteration:
                    loop.evaluating.closes()
                loop.heed()
            except Exception as error:  # contained
                loop.failed("loader", error)

    loop.undo["loader"] = put(kind, "__next__", __next__)


def batch_role(kind: type) -> str:
    """The role of the batches that iterators of this class hand over."""
    from torch.utils.data import dataloader

    if issubclass(kind, dataloader._MultiProcessingDataLoaderIter):
        return wire.BATCH_FROM_WORKERS
    inline = issubclass(kind, dataloader._SingleProcessDataLoaderIter)
    return wire.BATCH_INLINE if inline else wire.BATCH_FROM_ITERATOR


def _backward(loop: Loop, autograd: Any) -> None:
    """``Tensor.backward`` ends in ``torch.autograd.backward``."""
    original = autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if (loop.asks is not None and loop.asks()) or "backward" in loop.off:
            return original(*args, **kwargs)  # there is nothing to see in here
        if loop.careful:
            return carefully(args, kwargs)
        begin = clock()
        try:
            return original(*args, **kwargs)
        finally:
            try:
                if thread() == loop.home:
                    loop.add((loop.backward, begin, clock()))
                else:
                    loop.span(wire.BACKWARD, BACKWARD, OP, begin)
            except Exception as error:  # contained
                loop.failed("backward", error)

    def carefully(args: Any, kwargs: Any) -> Any:
        if loop.ids is not None:
            loop.ids.begins(args)
        begin = clock()
        loop.mark(device_marks.BACKWARD, begin)
        try:
            return original(*args, **kwargs)
        finally:
            try:
                _went_back(loop, begin)
            except Exception as error:  # contained
                loop.failed("backward", error)

    loop.undo["backward"] = put(autograd, "backward", backward)


def _went_back(loop: Loop, begin: int) -> None:
    """A backward pass ends now, and somebody may want to hear of it."""
    loop.span(wire.BACKWARD, BACKWARD, OP, begin)
    loop.mark(device_marks.BACKWARD_END, begin)
    if loop.evaluating is not None:
        loop.evaluating.ends()
    if not loop.steps:
        loop.retreats()
    loop.heed()


def _optimizer(loop: Loop) -> None:
    """The hooks that PyTorch calls around every optimizer's step."""
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    begun, outer = 0, list[int]()
    """when the present step began; one inside another, or one that raised, is rare"""

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal begun
        if loop.asks is None or not loop.asks():
            if begun:
                outer.append(begun)
            begun = clock()

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal begun
        if loop.asks is not None and loop.asks():
            return
        end = clock()
        try:
            begin, begun = begun or end, outer.pop() if outer else 0
            if id(optimizer) == loop.lead and thread() == loop.home:
                loop.add((loop.named, begin, end))
            else:
                loop.other(optimizer, begin, end)
            loop.steps = steps = loop.steps + 1
            if steps >= loop.due:
                loop.attend(optimizer)
        except Exception as error:  # contained
            loop.failed("optimizer", error)

    first = register_optimizer_step_pre_hook(before)
    last = register_optimizer_step_post_hook(after)

    def undo() -> None:
        first.remove()
        last.remove()

    loop.undo["optimizer"] = undo


def step(loop: Loop) -> None:
    """The user says that a step ends here."""
    loop.contained("step", _marked, loop)


def _marked(loop: Loop) -> None:
    loop.span(wire.STEP_MARKED, "whyidle.step", ANNOTATION, clock())
    loop.steps += 1
    loop.trains(None)
    loop.ended(None)
    loop.heed()
