"""The exchange of gradients by DistributedDataParallel, seen from the backward pass around it.

It runs in C++ and cannot be called around, but on a CPU the training thread sleeps while it waits
for it: the part of a backward pass in which the thread neither ran nor queued for a processor is
that waiting, and lies at its end. There all ranks meet, so what a thread used between two exchanges
(``PID.clock``) tells whether a late rank had more to do or less of a processor. Gradients are not
touched.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from ... import wire
from ...core import containment
from ...core.patching import put
from ...core.recorder import ANNOTATION, now
from ...core.sampler import describe
from ...core.thread_stacks import outwards
from ...wire import CLOCK

if TYPE_CHECKING:
    from .collectives import Ranks

WALK = "reducer::search_unused_parameters"
TOLD_EVERY = 64
"""backward passes between two looks at what DistributedDataParallel says of itself"""
LEAST_WAIT_NS = 1_000
MARKS = 64
thread = threading.get_ident


def made(ranks: Ranks, ddp: Any) -> None:
    """A model was wrapped: its exchanges are recorded from now on."""
    ranks.models = [known for known in ranks.models if known() is not None]
    ranks.models.append(weakref.ref(ddp))
    ranks.made = describe(outwards(sys._getframe(1)))
    _backward(ranks)
    if ddp.__dict__.get("find_unused_parameters") and "walk" not in ranks.loop.undo:
        _walk(ranks, type(ddp.reducer))


def _walk(ranks: Ranks, reducer: Any) -> None:
    """Time the search for unused parameters."""
    original = reducer.prepare_for_backward

    @functools.wraps(original)
    def prepare_for_backward(*args: Any, **kwargs: Any) -> Any:
        begin = now()
        result = original(*args, **kwargs)
        if args[-1]:  # the outputs from where to search; empty where no search is asked for
            ranks.contained("walk", ranks.loop.span, wire.GRADIENT_SEARCH, WALK, ANNOTATION, begin)
        return result

    ranks.loop.undo["walk"] = put(reducer, "prepare_for_backward", prepare_for_backward)


def _backward(ranks: Ranks) -> None:
    import torch

    is_compiling = containment.compiling()
    if "exchange" in ranks.loop.undo:
        return
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or "exchange" in ranks.loop.off:
            return original(*args, **kwargs)
        ran, queued = time.thread_time_ns(), ranks.queued()
        begin = now()
        result = original(*args, **kwargs)
        ranks.contained("exchange", exchanged, ranks, begin, ran, queued)
        return result

    ranks.loop.undo["exchange"] = put(torch.autograd, "backward", backward)


def exchanged(ranks: Ranks, begin: int, ran: int, queued: int) -> None:
    """A backward pass has ended: what of it was waiting for others, and did it exchange at all?"""
    end = now()
    models = [model for known in ranks.models if (model := known()) is not None]
    syncing = [model for model in models if _syncs(model)]
    if not syncing:
        ranks.unsynced += bool(models)
        return
    ranks.synced += 1
    if syncing[0].device_type == "cpu":
        recorder = ranks.loop.recorder
        ran_until, queued_until = time.thread_time_ns(), ranks.queued()
        idle = end - begin - (ran_until - ran) - (queued_until - queued)
        idle = min(max(idle, LEAST_WAIT_NS), end - begin)
        name = recorder.number(f"{ranks.backend}:all_reduce", wire.COLLECTIVE)
        recorder.add((end - idle, end, thread(), name, ANNOTATION))
        told = queued_until if ranks.queue >= 0 else -1
        recorder.row("clock", CLOCK, (end, ran_until, told, thread()))
    if ranks.synced % TOLD_EVERY == 2 and ranks.loop.recorder.facts:
        ranks.loop.recorder.facts["ddp"] = _settings(ranks, syncing[0])


def _syncs(model: Any) -> Any:
    """Whether its last forward pass asked for an exchange, as DistributedDataParallel notes at the
    end of it. What ``no_sync()`` sets may be back by the time the backward pass ends, where only
    the forward pass lies within."""
    own = model.__dict__
    return own.get("require_forward_param_sync", own.get("require_backward_grad_sync"))


def _settings(ranks: Ranks, model: Any) -> dict[str, Any]:
    """Of DistributedDataParallel, with what its own log says."""
    told = model._get_ddp_logging_data()
    kept = (
        "find_unused_parameters",
        "unused_parameter_size",
        "gradient_as_bucket_view",
        "bucket_cap_bytes",
        "num_parameter_tensors",
        "total_parameter_size_bytes",
        "avg_backward_comm_time",
        "avg_backward_compute_comm_overlap_time",
        "broadcast_buffers",
    )
    found = {key: told[key] for key in kept if key in told}
    if found.get("find_unused_parameters"):
        if ranks.mark_ns is None:
            ranks.mark_ns = _mark_ns()
        found["mark_ns"] = ranks.mark_ns
    return {
        **found,
        "static_graph": bool(model.static_graph),
        "exchanges": ranks.synced,
        "without_exchange": ranks.unsynced,
        "made": ranks.made,
    }


def _mark_ns() -> float:
    """What it costs here to write one number of a small tensor and to read it again. A search for
    unused parameters does that for every parameter, in C++ where it cannot be timed. Done once."""
    import torch

    with torch.no_grad():
        marks = torch.zeros(MARKS, dtype=torch.int32, device="cpu")
        took = []
        for _ in range(3):
            begin = now()
            for index in range(MARKS):
                marks[index] = 1
                marks[index].item()
            took.append(now() - begin)
    return min(took) / MARKS
