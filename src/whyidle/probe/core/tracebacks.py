"""Removes the probe's frames from the traceback that a failing job prints.

Only Python's own hook for uncaught exceptions is replaced; a hook of the job's own is not, and
tracebacks that the job formats itself are unchanged.
"""

from __future__ import annotations

import sys
from types import TracebackType

from .events import Events
from .own_files import FOLDER


def install_cleaner(events: Events) -> None:
    """Install the hook that cleans the traceback of an uncaught exception."""
    if sys.excepthook is not sys.__excepthook__:
        return

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        events.run_contained("traceback", clean_exception, error)
        sys.__excepthook__(kind, error, error.__traceback__ or trace)

    def undo() -> None:
        if sys.excepthook is excepthook:
            sys.excepthook = sys.__excepthook__

    sys.excepthook = excepthook
    events.undo["traceback"] = undo


def clean_exception(error: BaseException) -> None:
    """Remove the probe's frames from an exception and those chained to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < 100:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        link.__traceback__ = without_own_frames(link.__traceback__)
        waiting += [link.__cause__, link.__context__]


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the probe's frames."""
    while trace is not None and _is_own_frame(trace):
        trace = trace.tb_next
    at = trace
    while at is not None:
        while at.tb_next is not None and _is_own_frame(at.tb_next):
            at.tb_next = at.tb_next.tb_next
        at = at.tb_next
    return trace


def _is_own_frame(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(FOLDER)
