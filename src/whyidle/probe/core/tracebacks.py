"""What a job prints when it fails looks as it would without us: our wrappers stay out of it.

Only Python's own hook for exceptions that nobody caught is replaced; one of the job's own is left
alone, and so is what the job formats itself.
"""

from __future__ import annotations

import sys
from types import TracebackType

from .events import Events
from .own_files import FOLDER

MOST_LINKS = 100
"""exceptions behind one another that are looked at"""


def install_cleaner(events: Events) -> None:
    """Leave our frames out of what is printed when the job fails."""
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
    """Take our frames out of an exception and those behind it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < MOST_LINKS:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = without_own_frames(one.__traceback__)
        waiting += [one.__cause__, one.__context__]


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback less the frames of the probe."""
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
