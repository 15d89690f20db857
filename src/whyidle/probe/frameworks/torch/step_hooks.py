"""The hooks that run in every step: backward pass and optimizer; the next batch is ``input_waits``.

Once the job's own code has emptied the processor's caches, a Python call costs up to a quarter of a
microsecond, and so does each cache line. So the fast path here is written without calls of helper
functions, and what it reads lies in adjacent slots (``HotSlots``). Rare cases (an evaluation, a
measured step, another thread) take the slow path: ``Events.careful``. As everywhere, a fault
removes the hook and never reaches the job.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.frameworks import BACKWARD
from ...core.recorder import OP
from ...core.wrapped_functions import set_attribute
from .input_waits import measure_input_waits

clock, thread = time.perf_counter_ns, threading.get_ident


def install_step_hooks(events: Events) -> None:
    """Install the hooks of every step."""
    import torch
    from torch.utils.data import dataloader

    measure_input_waits(events, dataloader._BaseDataLoaderIter)
    _wrap_backward(events, torch.autograd)
    _hook_optimizer(events)


def _wrap_backward(events: Events, autograd: Any) -> None:
    """Wrap ``torch.autograd.backward``, which ``Tensor.backward`` calls."""
    original = autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if (events.asks is not None and events.asks()) or "backward" in events.off:
            return original(*args, **kwargs)
        if events.careful:
            return observe(args, kwargs)
        begin = clock()
        try:
            return original(*args, **kwargs)
        finally:
            try:
                if thread() == events.home:
                    events.add((events.backward, begin, clock()))
                else:
                    events.add_span(wire.BACKWARD, BACKWARD, OP, begin)
            except Exception as error:  # contained
                events.report_failure("backward", error)

    def observe(args: Any, kwargs: Any) -> Any:
        events.notify("on_backward_begin", args)
        begin = clock()
        try:
            return original(*args, **kwargs)
        finally:
            try:
                events.backward_ended(begin)
            except Exception as error:  # contained
                events.report_failure("backward", error)

    events.undo["backward"] = set_attribute(autograd, "backward", backward)


def _hook_optimizer(events: Events) -> None:
    """Install PyTorch's own hooks around every optimizer's step."""
    begun, outer = 0, list[int]()
    """when the current step began; ``outer``: steps that contain it, or that raised, both rare"""

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal begun
        if events.asks is None or not events.asks():
            if begun:
                outer.append(begun)
            begun = clock()

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal begun
        if events.asks is not None and events.asks():
            return
        end = clock()
        try:
            begin, begun = begun or end, outer.pop() if outer else 0
            if id(optimizer) == events.lead and thread() == events.home:
                events.add((events.named, begin, end))
            else:
                events.other_stepped(optimizer, begin, end)
            events.steps = steps = events.steps + 1
            if steps >= events.due:
                events.attend_step(optimizer)
        except Exception as error:  # contained
            events.report_failure("optimizer", error)

    _register_hooks(events, before_step, after_step)


def _register_hooks(events: Events, before_step: Any, after_step: Any) -> None:
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    hooks = [
        register_optimizer_step_pre_hook(before_step),
        register_optimizer_step_post_hook(after_step),
    ]

    def remove() -> None:
        while hooks:
            hooks.pop().remove()

    events.undo["optimizer"] = remove
