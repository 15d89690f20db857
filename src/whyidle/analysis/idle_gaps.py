"""The device's idle gaps, and the launch that ended each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import used_codes
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """For every device event, the host call that launched it (-1: not recorded).
    ``delay`` is the device's start minus the call's start, ns (valid where ``call`` >= 0)."""

    call: I64
    delay: I64

    @property
    def has_launch(self) -> NDArray[np.bool_]:
        """Which device events have a recorded launch."""
        return self.call >= 0


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Idle gaps ``[start, end)`` on one rank's device. ``launched`` is when the host finished
    the call that launched the work that ends the gap (-1: not recorded, or nothing follows)."""

    start: I64
    end: I64
    launched: I64

    def __len__(self) -> int:
        return len(self.start)


def pick_rows(values: NDArray[np.signedinteger], rows: I64, otherwise: int) -> I64:
    """``values[rows]``, and ``otherwise`` where a row is -1; also from no values at all."""
    if not len(values):
        return np.full(rows.shape, otherwise, dtype=np.int64)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], otherwise).astype(np.int64)


def link_launches(timeline: Timeline) -> Launches:
    """Link device events to the runtime calls that launched them, by correlation id."""
    device, host = timeline.device, timeline.host
    calls = np.flatnonzero((host.kind == HostKind.RUNTIME) & (host.corr >= 0))
    if not len(calls) or not len(device):
        return Launches(np.full(len(device), -1), np.zeros(len(device), np.int64))
    calls = calls[np.argsort(host.corr[calls], kind="stable")]
    index = np.minimum(np.searchsorted(host.corr[calls], device.corr), len(calls) - 1)
    found = calls[index]
    call = np.where((host.corr[found] == device.corr) & (device.corr >= 0), found, -1)
    delay = np.where(call >= 0, device.start - host.start[np.maximum(call, 0)], 0)
    return Launches(call, delay)


def idle_gaps(timeline: Timeline, linked: Launches, low: int, high: int) -> Gaps:
    """Gaps with no device activity of any stream inside ``[low, high)``."""
    device, host = timeline.device, timeline.host
    window = Intervals(np.array([low]), np.array([high]))
    busy = union_of(device.start, device.end)
    idle = window - busy
    following = np.searchsorted(device.start, idle.end, side="left")
    has_next = following < len(device)
    row = np.minimum(following, max(len(device) - 1, 0))
    if not len(device):
        return Gaps(idle.start, idle.end, np.full(len(idle), -1, np.int64))
    call = np.where(has_next & (device.start[row] == idle.end), linked.call[row], -1)
    return Gaps(idle.start, idle.end, pick_rows(host.end, call, -1))


_DIRECTIONS = (
    ("htod", "h2d"),
    ("hosttodevice", "h2d"),
    ("dtoh", "d2h"),
    ("devicetohost", "d2h"),
    ("ptop", "p2p"),
    ("dtod", "d2d"),
)


def _copy_direction(name: str) -> str:
    plain = name.lower().replace("-", "").replace(" ", "")
    return next((word for key, word in _DIRECTIONS if key in plain), "")


def copy_direction(timeline: Timeline) -> NDArray[np.str_]:
    """For every device event: "h2d", "d2h", "d2d", "p2p" or "" (no copy)."""
    device = timeline.device
    copies = device.kind == DeviceKind.MEMCPY
    table = np.zeros(len(timeline.names) + 1, dtype="U3")
    for i in used_codes(device.name[copies]):
        table[i] = _copy_direction(timeline.names[i])
    return np.where(copies, table[device.name], "")
