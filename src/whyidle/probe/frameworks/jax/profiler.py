"""The profiler of JAX for bursts, and the job's own use of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ...core.events import Events
from ...core.xplane_profiler import XPlaneProfiler, watch_calls
from .compiled_calls import CompiledCalls

OLDEST = (0, 8, 2)
"""versions to 0.7 write an error to the job's output whenever they are profiled"""
STATE = "jax._src.profiler"


def make_profiler(jax: Any, calls: CompiledCalls, cuda: bool) -> XPlaneProfiler:
    """Return the profiler of this process."""
    new = tuple(jax.__version_info__) >= OLDEST
    state: Any = importlib.import_module(STATE)
    xla: Any = getattr(state, "_profiler", None)

    def open_session() -> Any:
        options = xla.ProfileOptions()
        options.host_tracer_level, options.python_tracer_level = 2, 0
        options.enable_hlo_proto = True  # it tells the lines that operations come from
        return xla.ProfilerSession(options)

    def make_mark(name: str, number: int) -> Callable[[], Any]:
        mark = xla.TraceMe(name, step_num=number, _r=1)
        mark.__enter__()
        return lambda: mark.__exit__(None, None, None)

    def wait() -> None:
        try:
            if calls.output is not None:
                calls.wait(calls.output)
        except RuntimeError:  # it was donated or deleted
            calls.output = None

    return XPlaneProfiler(
        open_session,
        make_mark,
        wait,
        lambda: state._profile_state.profile_session is not None,
        cuda=cuda,
        unavailable=None if new else f"JAX {jax.__version__} cannot be profiled silently",
    )


def watch_profilers(events: Events, jax: Any, forbid: Callable[[str], None]) -> None:
    """Call ``forbid`` before the job starts a profiler, or a server that others profile it from."""
    watch_calls(events, jax.profiler, forbid)
    watch_calls(events, importlib.import_module(STATE), forbid)  # ``jax.profiler.trace`` is there
