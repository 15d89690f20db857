"""Starts and stops the profiler of XLA, which TensorFlow and JAX share, at step boundaries.

It uses the session below ``jax.profiler`` and ``tf.profiler.experimental``: their state stays as it
is, and nothing is converted or written on the training thread. A session is one of the whole
process and may be stopped on any thread. Python is not traced, which would slow every call of it.

How many operations a compiled step executes is nowhere to be read (a loop inside it may run
100,000 times), so a few recordings of milliseconds tell how many there are in a second.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

from .events import Events
from .recorder import clock_ns
from .wrapped_functions import set_attribute

TRACERS = ("CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH")
"""variables in the environment of a process that another tool traces"""
OWN = "the job uses its own profiler"
OWN_CALLS = ("start", "start_trace", "start_server")
"""functions with which a job profiles itself, or lets others do so"""
SAMPLES, SAMPLE_S = 4, 0.004
"""recordings that count operations, and the length of each, s"""
EVENT_BYTES = 57
"""bytes of a recorded operation in a loop of JAX 0.10; a count may be off by a factor of two"""
RECORD_S = 0.5e-6
"""how long an operation takes longer while it is recorded, s"""
MOST_SLOWED = 8
"""largest slow-down by recording that is taken out of a count"""


class XPlaneProfiler:
    """The profiler of one process: ``start``, ``mark`` at every boundary, ``stop``.

    ``open_session`` starts a session, whose ``stop`` returns the profile; ``make_mark`` returns a
    function that ends a mark, which begins now; ``wait`` waits for the device.
    """

    suffix = "xplane.pb"

    def __init__(
        self,
        open_session: Callable[[], Any],
        make_mark: Callable[[str, int], Callable[[], Any]],
        wait: Callable[[], Any],
        is_profiled: Callable[[], bool],
        *,
        cuda: bool,
        unavailable: str | None = None,
    ) -> None:
        self.open_session, self.make_mark, self.wait = open_session, make_mark, wait
        self.is_profiled, self.cuda, self.unavailable = is_profiled, cuda, unavailable
        self.running = False
        self._session: Any = None
        self._end_mark: Callable[[], Any] | None = None

    def why_unavailable(self) -> str | None:
        """Return why this process cannot be recorded at all; None if it can."""
        variable = next((name for name in TRACERS if os.environ.get(name)), None)
        return f"{variable} is set" if variable else self.unavailable

    def busy(self) -> str | None:
        """Return why this process cannot be recorded now; None if it can."""
        return "a profiler is running" if self.is_profiled() else None

    def is_capturing(self) -> bool:
        """Return False: nothing is captured as a graph by the job."""
        return False

    def stay(self) -> None:
        """End the session: another profiler is about to begin, and there can be only one."""
        self._close_session()

    def start(self, label: str) -> None:
        """Record the process from now on, beginning with the step ``label``."""
        self._session = self.open_session()
        self.running = True
        self._open_mark(label)

    def _open_mark(self, label: str) -> None:
        name, _, number = label.partition("#")
        self._end_mark = self.make_mark(name, int(number))

    def mark(self, label: str) -> None:
        """Mark the end of a step and the begin of the next one, ``label``."""
        self._close_mark()
        self._open_mark(label)

    def _close_mark(self) -> None:
        end, self._end_mark = self._end_mark, None
        if end is not None:
            end()

    def stop(self) -> bytes:
        """Stop, once the device has done the recorded steps. Returns what ``save`` takes."""
        try:
            self.wait()
            self._close_mark()
        finally:
            self.running = False
            result = self._close_session()
        return result

    def _close_session(self) -> bytes:
        session, self._session = self._session, None
        return b"" if session is None else session.stop()

    def save(self, result: bytes, path: str) -> int:
        """Write a recording completely or not at all, from any thread. Returns its size in bytes.

        Raises:
            OSError: nothing could be written.
        """
        draft = path + "~"
        with open(draft, "wb") as file:
            file.write(result)
        os.replace(draft, path)
        return len(result)

    def estimate_events(self, step_s: float) -> int | None:
        """Return how many events a step of this length has, from some milliseconds of the run. Not
        on a GPU, where starting costs more than they tell."""
        if self.cuda or self.busy():
            return None
        size = recorded_s = 0.0
        for _ in range(SAMPLES):
            begin, session = clock_ns(), self.open_session()
            try:
                time.sleep(SAMPLE_S)
            finally:
                recorded_s += (clock_ns() - begin) / 1e9
                size += len(session.stop())
            time.sleep(SAMPLE_S)
        events = size / EVENT_BYTES
        plain_s = max(recorded_s - events * RECORD_S, recorded_s / MOST_SLOWED)
        return int(events / plain_s * step_s)

    def count_nodes(self) -> int:
        """Return 0: backward graphs are not seen."""
        return 0

    def count_compilations(self) -> int:
        """Return 0: step times tell when the job has settled."""
        return 0


def watch_calls(events: Events, module: Any, forbid: Callable[[str], None]) -> None:
    """Call ``forbid`` before the job calls a function of this module that starts a profiler."""
    for name in OWN_CALLS:
        if hasattr(module, name):
            where = f"{module.__name__}.{name}"
            events.undo[where] = set_attribute(
                module, name, _forbid_first(events, getattr(module, name), forbid)
            )


def _forbid_first(
    events: Events, original: Callable[..., Any], forbid: Callable[[str], None]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        events.run_contained("burst", forbid, OWN)
        return original(*args, **kwargs)

    return start
