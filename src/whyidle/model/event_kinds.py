"""Kinds of recorded events, and their details; without numpy, for processes that only decode."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class HostKind(IntEnum):
    """The kind of a host event."""

    RUNTIME = 0
    OP = 1
    PYTHON = 2
    ANNOTATION = 3
    OVERHEAD = 4


class DeviceKind(IntEnum):
    """The kind of a device event."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


@dataclass(frozen=True, slots=True)
class Detail:
    """Details of some events. ``dims`` and ``types`` are JSON text, as recorded."""

    dims: str = ""
    types: str = ""
    stack: str = ""
    collective: str = ""
    elements: int = -1
    group_size: int = -1
    group: str = ""
    after: bool = False  # whether the stack is of the line at which a stretch of Python ended
