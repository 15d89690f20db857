"""A process that leaves without Python's own end: what waits in memory is written first.

``os._exit`` and ``os.execv`` run nothing at exit, so the last moments of such a process would be
lost, and with them all of one that trained for less than there is between two writes. The writing
is done by a thread that is waited for, no longer than ``PARTING_S``: a folder that hangs must not
keep a job that means to go.
"""

from __future__ import annotations

import _thread
import functools
import os
from typing import Any

from . import containment
from .events import Events
from .patching import set_attribute
from .sampler import PARTING_S

CALLS = ("_exit", "execv", "execve")
"""every other ``os.exec...`` calls one of them"""


def install_exit_hooks(events: Events) -> None:
    """Write before any of ``CALLS``."""
    for name in CALLS:
        if hasattr(os, name):
            _wrap(events, name)


def _wrap(events: Events, name: str) -> None:
    original = getattr(os, name)
    where = f"os.{name}"

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        events.run_contained(where, leave, events)
        return original(*args, **kwargs)

    wrapper.__module__ = "os"  # by which it can be pickled
    events.undo[where] = set_attribute(os, name, wrapper)


def leave(events: Events) -> None:
    """Write what waits, where this process tells anything at all."""
    recorder = events.recorder
    if recorder.broken or not (recorder.facts or recorder.documents):
        return
    written = _thread.allocate_lock()
    written.acquire()

    def write() -> None:
        try:
            containment.run_contained(recorder.folder, "leaving", recorder.flush_records)
        finally:
            written.release()

    containment.start_thread(write)
    written.acquire(timeout=PARTING_S)
