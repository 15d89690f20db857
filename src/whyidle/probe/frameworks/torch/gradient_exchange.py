"""Records the exchange of gradients by DistributedDataParallel, from around the backward pass.

The exchange runs in C++ and cannot be wrapped, but on a CPU the training thread sleeps while it
waits for it: this waiting is the part of a backward pass in which the thread neither ran nor was
queued for a core, and lies at its end. All ranks meet there, so the time that a thread used between
two exchanges (``PID.clock``) shows whether a late rank had more work or less of a core. Gradients
are not touched.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.recorder import ANNOTATION, clock_ns
from ...core.sampler import describe_stack
from ...core.thread_stacks import enclosing_frames
from ...core.wrapped_functions import set_attribute
from ...wire import CLOCK

WALK = "reducer::search_unused_parameters"
TOLD_EVERY = 64
"""backward passes between two readings of DistributedDataParallel's own log"""
LEAST_WAIT_NS = 1_000
LOGGED = (
    "find_unused_parameters",
    "unused_parameter_size",
    "gradient_as_bucket_view",
    "num_parameter_tensors",
    "total_parameter_size_bytes",
    "avg_backward_comm_time",
    "avg_backward_compute_comm_overlap_time",
)
"""recorded fields of that log"""
thread = threading.get_ident


class GradientExchange:
    """The exchanges of one process. ``backend`` returns the name of the backend."""

    def __init__(self, events: Events, backend: Callable[[], str]) -> None:
        self.events, self.backend = events, backend
        self.models: list[weakref.ref[Any]] = []
        self.synced = 0
        """backward passes with an exchange"""
        self.made = ""
        """the stack that wrapped the last model"""
        self.unused: list[int] = []
        """bytes of parameters without a gradient, at each reading of the log"""
        self._queue, self._queue_of = -1, 0
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.models.clear()
        self._queue, self._queue_of = -1, 0

    def queued_ns(self) -> int:
        """Return how long this thread has waited for a core, ns, as the kernel counts it."""
        if self._queue_of != thread():
            self._queue_of = thread()
            self._queue = _open_queue()
        if self._queue < 0:
            return 0
        try:
            return int(os.pread(self._queue, 80, 0).split()[1])
        except (OSError, ValueError, IndexError):
            self._queue = -1
            return 0

    def model_wrapped(self, ddp: Any) -> None:
        """Record the exchanges of a model that was wrapped."""
        self.models = [known for known in self.models if known() is not None]
        self.models.append(weakref.ref(ddp))
        self.made = describe_stack(enclosing_frames(sys._getframe(1)))
        self.install_hooks()
        if ddp.__dict__.get("find_unused_parameters") and "walk" not in self.events.undo:
            self._time_search(type(ddp.reducer))

    def _time_search(self, reducer: Any) -> None:
        """Time the search for unused parameters."""
        original = reducer.prepare_for_backward

        @functools.wraps(original)
        def prepare_for_backward(*args: Any, **kwargs: Any) -> Any:
            begin = clock_ns()
            result = original(*args, **kwargs)
            if args[-1]:  # the outputs from where to search; empty where no search is asked for
                span = self.events.add_span
                self.events.run_contained(
                    "walk", span, wire.GRADIENT_SEARCH, WALK, ANNOTATION, begin
                )
            return result

        self.events.undo["walk"] = set_attribute(
            reducer, "prepare_for_backward", prepare_for_backward
        )

    def install_hooks(self) -> None:
        """Wrap every backward pass."""
        import torch

        is_tracing = self.events.framework.is_tracing
        if "exchange" in self.events.undo:
            return
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_tracing() or "exchange" in self.events.off:
                return original(*args, **kwargs)
            ran, queued = time.thread_time_ns(), self.queued_ns()
            begin = clock_ns()
            result = original(*args, **kwargs)
            self.events.run_contained("exchange", self.backward_ended, begin, ran, queued)
            return result

        self.events.undo["exchange"] = set_attribute(torch.autograd, "backward", backward)

    def backward_ended(self, begin: int, ran: int, queued: int) -> None:
        """Record the waiting for other ranks in a backward pass that exchanged gradients."""
        end = clock_ns()
        models = [model for known in self.models if (model := known()) is not None]
        syncing = [model for model in models if _syncs(model)]
        if not syncing:
            return
        self.synced += 1
        recorder = self.events.recorder
        if syncing[0].device_type == "cpu":
            ran_until, queued_until = time.thread_time_ns(), self.queued_ns()
            idle = end - begin - (ran_until - ran) - (queued_until - queued)
            idle = min(max(idle, LEAST_WAIT_NS), end - begin)
            name = recorder.name_number(f"{self.backend()}:all_reduce", wire.COLLECTIVE)
            recorder.add((end - idle, end, thread(), name, ANNOTATION))
            queued_ns = queued_until if self._queue >= 0 else -1
            recorder.add_row("clock", CLOCK, (end, ran_until, queued_ns, thread()))
        if self.synced % TOLD_EVERY == 2 and recorder.facts:
            recorder.facts["ddp"] = self._ddp_settings(syncing[0])

    def _ddp_settings(self, model: Any) -> dict[str, Any]:
        """The settings and timings in DistributedDataParallel's own log."""
        log = model._get_ddp_logging_data()
        settings = {key: log[key] for key in LOGGED if key in log}
        if settings.get("find_unused_parameters"):
            self.unused.append(int(settings.get("unused_parameter_size", 0)))
            settings["unused_readings"] = len(self.unused)
            settings["unused_varies"] = len(set(self.unused)) > 1
        return {**settings, "made": self.made}


def _open_queue() -> int:
    try:
        return os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1  # not Linux, or hidden


def _syncs(model: Any) -> Any:
    """Whether the last forward pass requested an exchange, as DistributedDataParallel notes at its
    end. The flag of ``no_sync()`` may be reset before the backward pass, if only the forward pass
    lies within it."""
    own = model.__dict__
    return own.get("require_forward_param_sync", own.get("require_backward_grad_sync"))
