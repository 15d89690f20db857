"""Device work that the host launched before the recording began. A host may be many steps ahead of
its device. A recording then holds the calls of its steps at once and their kernels only when the
device reaches them; earlier time belongs to unrecorded steps."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from whyidle.analysis.partition.idle_gaps import Launches, context_calls
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

QUEUED_NS: Final = 1_000_000
"""work for an idle device begins within this time; a launch takes 5 to 20 us (HTA)"""


class DeviceBacklog(NamedTuple):
    """A backlog that ends at ``until``; a host that ``waited`` for it lost its usual lead."""

    until: int
    waited: bool


def earlier_work(timeline: Timeline, linked: Launches, low: int) -> DeviceBacklog | None:
    """Return the backlog at ``low``, where the recording begins; None where nothing shows any. Work
    of other processes on the device looks the same."""
    device, host = timeline.device, timeline.host
    known = np.flatnonzero(linked.has_launch)
    if not len(known):
        return None
    row = known[np.argmin(device.start[known])]
    first, call = int(device.start[row]), linked.call[row]
    lost = host.start[timeline.rows_of(Role.KERNEL_LAUNCH)] < host.start[call]
    created = host.start[context_calls(timeline)] < first
    if lost.any() or created.any():  # no kernels of the first launches; a new device
        return None
    if first - max(int(host.end[call]), low) > QUEUED_NS:
        return DeviceBacklog(first, waited=False)
    if device.start.min() < first:
        return None
    rows = np.concatenate([timeline.rows_of(Role.SYNC), timeline.rows_of(Role.COPY_CALL)])
    begin, end = np.maximum(host.start[rows], low), np.minimum(host.end[rows], first)
    blocked = end - begin > QUEUED_NS
    return DeviceBacklog(int(end[blocked].max()), waited=True) if blocked.any() else None
