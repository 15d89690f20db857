"""Until when the device was still at work that the host had given it before the recording began.

A host may be many steps ahead of its device. A recording that begins then holds the calls of its
steps at once, and their kernels only when the device has come to them; what it does until then was
launched earlier, and no profiler tells of it. That time belongs to steps before the recording.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from whyidle.analysis.idle_gaps import Launches
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

QUEUED_NS: Final = 1_000_000
"""work that was given to an idle device begins within this time: a launch takes 5 to 20 us to get
there (HTA)"""


class DeviceBacklog(NamedTuple):
    """``until`` when the device was at it, and whether the host had ``waited`` for it: that host is
    not as far ahead as it usually is, so the step that follows is like no other."""

    until: int
    waited: bool


def earlier_work(timeline: Timeline, linked: Launches, low: int) -> DeviceBacklog | None:
    """Work from before the recording, which begins at ``low``; None where nothing shows any.

    Two things show it: the first work whose launch was recorded had been launched long before the
    device began it, or the host waited for a device that showed no work. Kernels without a launch
    may show what the device did until then, or nothing does. Work of other processes on the same
    device looks alike.
    """
    device, host = timeline.device, timeline.host
    known = np.flatnonzero(linked.has_launch)
    if not len(known):
        return None
    row = known[np.argmin(device.start[known])]
    first, call = int(device.start[row]), linked.call[row]
    if first - max(int(host.end[call]), low) > QUEUED_NS:
        return DeviceBacklog(first, waited=False)
    if device.start.min() < first:
        return None
    rows = np.concatenate([timeline.rows_of(Role.SYNC), timeline.rows_of(Role.COPY_CALL)])
    begin, end = np.maximum(host.start[rows], low), np.minimum(host.end[rows], first)
    blocked = end - begin > QUEUED_NS
    return DeviceBacklog(int(end[blocked].max()), waited=True) if blocked.any() else None
