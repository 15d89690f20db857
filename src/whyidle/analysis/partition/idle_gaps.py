"""The device's idle gaps, and the launch that ended each."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.integer_codes import map_names
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.roles import Role
from whyidle.model.timeline import DeviceKind, HostKind, Timeline

CONTEXT_NS = 100_000_000
"""a call of the runtime that is no wait takes microseconds, or, once, the context's creation"""


class Launches(Struct, frozen=True, eq=False):
    """For every device event, the host call that launched it (-1: not recorded), and the ``delay``
    from the call's start to the event's, ns."""

    call: I64
    delay: I64

    @property
    def has_launch(self) -> Mask:
        """Which device events have a recorded launch."""
        return self.call >= 0


class Gaps(Struct, frozen=True, eq=False):
    """Idle gaps ``[start, end)`` of a rank's device; ``launched`` is the end of the call that
    launched the next work (-1: not recorded, or nothing follows)."""

    start: I64
    end: I64
    launched: I64

    def __len__(self) -> int:
        return len(self.start)


def pick_rows(values: NDArray[np.signedinteger], rows: I64, otherwise: int) -> I64:
    """Return ``values[rows]``, with ``otherwise`` where a row is -1 or there are no values."""
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
    matches = calls[index]
    call = np.where((host.corr[matches] == device.corr) & (device.corr >= 0), matches, -1)
    delay = np.where(call >= 0, device.start - host.start[np.maximum(call, 0)], 0)
    return Launches(call, delay)


def context_calls(timeline: Timeline) -> I64:
    """Return the runtime calls (host rows) that take so long, and that once, that they create the
    device's context: it takes from 0.1 s to many seconds."""
    host = timeline.host
    rows = np.flatnonzero((host.kind == HostKind.RUNTIME) & (host.end - host.start > CONTEXT_NS))
    if not len(rows):
        return rows
    waits = [timeline.rows_of(role) for role in (Role.SYNC, Role.COPY_CALL, Role.LAUNCH_CALL)]
    rows = np.setdiff1d(rows, np.concatenate(waits))
    _, first, times = np.unique(host.name[rows], return_index=True, return_counts=True)
    work = int(timeline.device.start.min()) if len(timeline.device) else 0
    return np.union1d(rows[first[times == 1]], rows[host.end[rows] <= work])


def idle_gaps(timeline: Timeline, linked: Launches, low: int, high: int) -> Gaps:
    """Return the gaps without device activity on any stream inside ``[low, high)``."""
    device, host = timeline.device, timeline.host
    idle = Intervals(np.array([low]), np.array([high])) - union_of(device.start, device.end)
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
    """Return "h2d", "d2h", "d2d", "p2p" or "" (no copy) for every device event."""
    device = timeline.device
    words = map_names(timeline.names, device.name, _copy_direction, "U3")
    return np.where(device.kind == DeviceKind.MEMCPY, words, "")


def neighbour_calls(timeline: Timeline) -> tuple[I64, I64]:
    """Return the runtime calls before and after each runtime call on its thread (-1: none)."""
    host = timeline.host
    calls = np.flatnonzero(host.kind == HostKind.RUNTIME)
    order = calls[np.argsort(host.thread[calls], kind="stable")]
    same = host.thread[order[1:]] == host.thread[order[:-1]]
    previous, following = np.full((2, len(host)), -1, dtype=np.int64)
    previous[order[1:][same]] = order[:-1][same]
    following[order[:-1][same]] = order[1:][same]
    return previous, following
