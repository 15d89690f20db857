"""Writes buffered records before a process leaves without Python's normal exit.

``os._exit`` and ``os.execv`` run no exit handlers, so the last records of such a process would be
lost, and all records of one that trained for less than the time between two writes. A thread
writes them; the process waits for it no longer than ``PARTING_S``, as a folder that hangs must not
keep the job.
"""

from __future__ import annotations

import _thread
import functools
import os
from typing import Any

from . import fault_containment
from .events import Events
from .sampler import PARTING_S
from .wrapped_functions import set_attribute

CALLS = ("_exit", "execv", "execve")
"""every other ``os.exec*`` function calls one of them"""


def install_exit_hooks(events: Events) -> None:
    """Write records before any of ``CALLS``."""
    for name in CALLS:
        if hasattr(os, name):
            _wrap(events, name)


def _wrap(events: Events, name: str) -> None:
    original = getattr(os, name)
    where = f"os.{name}"

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        events.run_contained(where, write_before_exit, events)
        return original(*args, **kwargs)

    wrapper.__module__ = "os"  # so that it can be pickled
    events.undo[where] = set_attribute(os, name, wrapper)


def write_before_exit(events: Events) -> None:
    """Write buffered records if this process reports anything."""
    recorder = events.recorder
    if recorder.broken or not (recorder.facts or recorder.documents):
        return
    written = _thread.allocate_lock()
    written.acquire()

    def write() -> None:
        try:
            fault_containment.run_contained(recorder.folder, "leaving", recorder.flush_records)
        finally:
            written.release()

    fault_containment.start_thread(write)
    written.acquire(timeout=PARTING_S)
