"""The line of what a job printed that says why it ended."""

from __future__ import annotations

import re

ERROR = re.compile(r"(?:\[\w+\]: ?)*((?:\w+\.)*(?:\w+Error|\w*Exception)(?::.*)?)")
"""``[rank0]: torch.OutOfMemoryError: CUDA out of memory.``"""
LAUNCHER = "ChildFailedError"
"""what a launcher ends with, which says nothing of the job"""


def last(said: str) -> str:
    """The last line that looks like an error, without the rank before it, or else the last one;
    empty where it printed nothing. Below an error a launcher prints a table of its own."""
    lines = said.strip().splitlines()
    found = (ERROR.fullmatch(line.strip()) for line in reversed(lines) if LAUNCHER not in line)
    error = next((match for match in found if match), None)
    return error[1] if error else lines[-1] if lines else ""
