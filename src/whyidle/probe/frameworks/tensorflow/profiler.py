"""The profiler of TensorFlow for bursts, and the job's own use of it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
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


Quiet = Callable[[], Any]
"""makes a context in which TensorFlow writes errors only"""


class Session:
    """A session of the profiler. TensorFlow gives its profile away only as a file."""

    def __init__(self, session: Any, folder: str, quiet: Quiet) -> None:
        self.session, self.folder, self.quiet = session, folder, quiet
        with quiet():
            session.start(folder, OPTIONS)

    def stop(self) -> bytes:
        """End the session and return the profile."""
        try:
            with self.quiet():
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

    quiet = _find_quiet()

    def open_session() -> Any:
        return Session(_pywrap_profiler.ProfilerSession(), draft, quiet or nullcontext)

    def make_mark(name: str, number: int) -> Callable[[], Any]:
        stop: Callable[[], Any] = _pywrap_traceme.TraceMe(name, step_num=number, _r=1).Stop
        return stop

    def wait() -> None:
        synchronize = getattr(sys.modules["tensorflow"].test.experimental, "sync_devices", None)
        if cuda and synchronize is not None:
            synchronize()

    def is_profiled() -> bool:
        return profiler_v2._profiler is not None

    why = None if quiet else "the profiler of this version writes to standard error"
    return XPlaneProfiler(open_session, make_mark, wait, is_profiled, cuda=cuda, unavailable=why)


def _find_quiet() -> Quiet | None:
    """Return what keeps the lines that TensorFlow's profiler logs out of the job's standard error:
    nothing where they are off, or the user asks for a burst; else the level of Abseil's log, in
    versions that log through it. None if there is no way."""
    silent = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") >= "2"
    if silent or os.environ.get("WHYIDLE_PROFILE") == "look":
        return nullcontext
    folder = os.path.dirname(sys.modules["tensorflow"].__file__ or "")
    try:
        with open(f"{folder}/include/xla/tsl/platform/logging.h") as file:
            logs_by_abseil = "absl/log/log.h" in file.read()
        with open(f"{folder}/include/absl/base/options.h") as file:
            (space,) = re.findall(r"^#define ABSL_\w+_NAMESPACE_NAME (\w+)", file.read(), re.M)
        library = ctypes.CDLL(f"{folder}/libtensorflow_framework.so.2")
        name = f"_ZN4absl{len(space)}{space}"
        level = library[f"{name}11MinLogLevelEv"]
        set_level = library[f"{name}14SetMinLogLevelENS0_18LogSeverityAtLeastE"]
    except (OSError, ValueError, AttributeError):
        return None

    @contextmanager
    def quiet() -> Iterator[None]:
        before = level()
        set_level(max(before, 2))  # errors
        try:
            yield
        finally:
            set_level(before)

    return quiet if logs_by_abseil else None


def watch_profilers(events: Events, forbid: Callable[[str], None]) -> None:
    """Call ``forbid`` before the job starts a profiler, or a server that others profile it from."""
    for name in (*MODULES, SERVER):
        watch_calls(events, sys.modules.get(name), forbid)
