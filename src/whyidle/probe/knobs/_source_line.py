"""Finds the line of the job that creates an object."""

from __future__ import annotations

import os
from types import FrameType
from typing import Any

from ..core.own_files import FOLDER
from ..core.thread_stacks import read_variables


def find_source_line(frame: FrameType | None, made: Any, start: str) -> str | None:
    """Return ``file:line`` of the code that creates ``made``: the first caller that is neither the
    probe nor a function of the object itself, such as its class's ``__init__`` or a library's
    wrapper of it. File names are relative to ``start``."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(FOLDER) and not _belongs_to(frame, made):
            return f"{os.path.join(start, name)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _belongs_to(frame: FrameType, made: Any) -> bool:
    """Whether the first argument of a frame's function is the object, or a tuple that begins with
    it (``*args``). Only ``__init__`` and closures around one are inspected."""
    code = frame.f_code
    if not code.co_varnames or not (code.co_name == "__init__" or code.co_freevars):
        return False
    first = read_variables(frame).get(code.co_varnames[0])
    return first is made or (type(first) is tuple and first[:1] != () and first[0] is made)
