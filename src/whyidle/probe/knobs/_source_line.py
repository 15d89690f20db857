"""The line of the job at which an object is made."""

from __future__ import annotations

import os
from types import FrameType
from typing import Any

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def line_of(frame: FrameType | None, made: Any, start: str) -> str | None:
    """``file:line`` of whoever has ``made`` made: the first frame outwards that is not ours, and no
    function of the object itself, as its class's ``__init__`` or what a library has put in its
    place. Names of files are from ``start``."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(OURS) and not _of(frame, made):
            return f"{os.path.join(start, name)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _of(frame: FrameType, made: Any) -> bool:
    """Whether the first argument of a frame's function is the object; under ``*`` it is a tuple.
    Only an ``__init__`` and what is wrapped around one, which has that from around it, are asked:
    until Python 3.13 a frame that is asked keeps what its variables held by then."""
    code = frame.f_code
    if not code.co_varnames or not (code.co_name == "__init__" or code.co_freevars):
        return False
    first = frame.f_locals.get(code.co_varnames[0])
    return first is made or (type(first) is tuple and first[:1] != () and first[0] is made)
