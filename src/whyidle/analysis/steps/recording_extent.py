"""When a recording begins and ends."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.integer_codes import is_among, used_codes
from whyidle.analysis.intervals import union_of
from whyidle.analysis.partition.idle_gaps import link_launches
from whyidle.model.timeline import HostKind, Timeline

SEEN = 0.5
"""share of the time before the first work, or after the last, in which a thread must be seen to do
something for that time to be part of the recording: else the program was only there"""


def host_extent(timeline: Timeline) -> tuple[int, int]:
    """From the first to the last event of the host other than Python, ns."""
    host = timeline.host
    useful = host.kind != HostKind.PYTHON
    rows = np.flatnonzero(useful) if useful.any() else np.arange(len(host))
    if not len(rows):
        return recording_extent(timeline)
    return int(host.start[rows].min()), int(host.end[rows].max())


def recording_extent(timeline: Timeline) -> tuple[int, int]:
    """From the first work to the last end, ns: of the device, and of the threads that launch, as
    far as these are seen to be at work."""
    device, host = timeline.device, timeline.host
    sampled = timeline.looks is not None
    useful = (host.kind != HostKind.PYTHON) | sampled
    if len(device):
        calls = link_launches(timeline).call
        calls = calls[calls >= 0]
        useful &= is_among(host.thread, used_codes(host.thread[calls]))
        low = int(np.append(host.start[calls], device.start.min()).min())
        high = int(device.end.max())
        seen = union_of(host.start[useful], host.end[useful])
        first, last = (np.full(len(seen), edge) for edge in (low, high))
        before = seen.length_inside(seen.start, first) >= SEEN * np.abs(first - seen.start)
        after = seen.length_inside(last, seen.end) >= SEEN * np.abs(seen.end - last)
        begin, end = np.append(seen.start[before], low), np.append(seen.end[after], high)
        return int(begin.min()), int(end.max())
    if not len(host):
        return 0, 1
    rows = np.flatnonzero(useful) if useful.any() else np.arange(len(host))
    return int(host.start[rows].min()), int(host.end[rows].max())
