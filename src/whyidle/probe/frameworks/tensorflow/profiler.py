"""The profiler of TensorFlow for bursts, and the job's own use of it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

from ...core.events import Events
from ...core.xplane_profiler import XPlaneProfiler, watch_calls

OPTIONS = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1}
MODULES = (
    "tensorflow.python.profiler.profiler_v2",
    "tensorflow._api.v2.profiler.experimental",
    "tensorflow._api.v2.compat.v2.profiler.experimental",
)
"""where jobs and Keras' callback find the functions with which a job profiles itself"""
SERVER = "tensorflow._api.v2.profiler.experimental.server"


class Session:
    """A session of the profiler. TensorFlow gives its profile away only as a file."""

    def __init__(self, session: Any, folder: str) -> None:
        self.session, self.folder = session, folder
        session.start(folder, OPTIONS)

    def stop(self) -> bytes:
        """End the session and return the profile."""
        try:
            self.session.export_to_tb()
            for path, _, names in os.walk(self.folder):
                for name in names:
                    if name.endswith(XPlaneProfiler.suffix):
                        with open(os.path.join(path, name), "rb") as file:
                            return file.read()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return b""


def make_profiler(cuda: bool, draft: str) -> XPlaneProfiler:
    """Return the profiler of this process, which uses the folder ``draft``."""
    from tensorflow.python.profiler import profiler_v2
    from tensorflow.python.profiler.internal import _pywrap_profiler, _pywrap_traceme

    def open_session() -> Any:
        return Session(_pywrap_profiler.ProfilerSession(), draft)

    def make_mark(name: str, number: int) -> Callable[[], Any]:
        stop: Callable[[], Any] = _pywrap_traceme.TraceMe(name, step_num=number, _r=1).Stop
        return stop

    def wait() -> None:
        synchronize = getattr(sys.modules["tensorflow"].test.experimental, "sync_devices", None)
        if cuda and synchronize is not None:
            synchronize()

    def is_profiled() -> bool:
        return profiler_v2._profiler is not None

    return XPlaneProfiler(
        open_session, make_mark, wait, is_profiled, cuda=cuda, unavailable=_why_unwanted()
    )


def _why_unwanted() -> str | None:
    """Return why this job is not profiled: TensorFlow's profiler writes some lines to the job's
    standard error, so unless they are off it is used only where the user asks for it."""
    silent = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") >= "2"
    if silent or os.environ.get("WHYIDLE_PROFILE") == "look":
        return None
    return "TensorFlow's profiler writes to standard error; --look profile records all the same"


def watch_profilers(events: Events, forbid: Callable[[str], None]) -> None:
    """Call ``forbid`` before the job starts a profiler, or a server that others profile it from."""
    for name in (*MODULES, SERVER):
        watch_calls(events, sys.modules.get(name), forbid)
