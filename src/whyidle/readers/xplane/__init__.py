"""Profiles of TensorFlow, Keras and JAX (XPlane): one host, and its GPUs or TPUs if it has any."""

from __future__ import annotations

import re
from pathlib import Path

from whyidle.errors import BrokenTraceError
from whyidle.frameworks.jax.names import VOCABULARY as JAX
from whyidle.frameworks.tensorflow.names import VOCABULARY as TENSORFLOW
from whyidle.model.timeline import Source, Timeline
from whyidle.readers._events.event_rows import EventRows
from whyidle.readers._files.byte_stream import ByteStream, Progress
from whyidle.readers._files.formats import FORMATS
from whyidle.readers.xplane.hlo_places import read_operations
from whyidle.readers.xplane.tfdata_stages import find_slowest_stage
from whyidle.readers.xplane.xplane_devices import (
    add_device_steps,
    add_devices,
    device_of,
    device_planes,
)
from whyidle.readers.xplane.xplane_hosts import HostReader
from whyidle.readers.xplane.xspace import Space, read_space

SUFFIXES, sniff = FORMATS["xplane"].SUFFIXES, FORMATS["xplane"].sniff
_MOST_BYTES = (2 << 30) + 1
"""protocol buffers are limited to 2 GiB"""
_SINCE_1970_NS = 10**17
_IGNORED = "events with impossible times were ignored"
"""times above count from 1970; below, from the start of the profile"""


def load(path: Path, *, member: str | None = None, progress: Progress | None = None) -> Timeline:
    """Read one host's profile: a file or a zip's ``member``.

    Raises:
        InputError: the file cannot be opened.
        BrokenTraceError: nothing in it could be read.
    """
    stream = ByteStream(path, member, progress)
    try:
        data = stream.read(_MOST_BYTES)
    finally:
        stream.close()
    shown = f"{path}!{member}" if member else str(path)
    space = read_space(data)
    lost = "; ".join(filter(None, (stream.broken, space.lost))) or None
    rows, planes = EventRows(), device_planes(space)
    marked = add_device_steps(planes, rows)
    host, directions = space.plane("/host:CPU"), dict[int, str]()
    if host is not None:
        on_device = any(device.plane.lines for device in planes)
        programs = space.plane("/host:metadata")
        operations = read_operations(data, programs.entries) if programs else {}
        reader = HostReader(host, rows, operations, on_device=on_device)
        directions = reader.add_all(marked=marked)
    add_devices(planes, rows, directions)
    host_events, device_events, base = rows.build()
    if not len(host_events) + len(device_events):
        raise BrokenTraceError(
            f"No event could be read from {shown}.",
            why=f"{lost[0].upper()}{lost[1:]}." if lost else "The profile has no event.",
            hint="Record again, and let the profiler stop before copying the file.",
        )
    framework = _framework_of(space, rows)
    named = re.match(r"(.+)\.xplane\.pb", (member or path.name).rpartition("/")[2])
    began = _profile_start(space)
    return rows.make_timeline(
        host_events,
        device_events,
        source=Source(
            path=shown,
            format="xplane",
            events=len(host_events) + len(device_events) + rows.ignored,
            bytes=len(data),
            notes=(f"{rows.ignored} {_IGNORED}",) if rows.ignored else (),
            lost=lost,
            origin_ns=base,
            input_stage=find_slowest_stage(host) if host is not None else None,
        ),
        base_ns=base if base > _SINCE_1970_NS else base + began,
        info=device_of(planes),
        hostname=space.hostname or (named[1] if named else None),
        framework=framework,
        vocabulary=JAX if framework == "jax" else TENSORFLOW,
        cut=lost is not None,
    )


def _profile_start(space: Space) -> int:
    plane = space.plane("Task Environment")
    began = plane.stats.get("profile_start_time", 0) if plane else 0
    return began if isinstance(began, int) and 0 <= began < 1 << 62 else 0


def _framework_of(space: Space, rows: EventRows) -> str:
    metadata = space.plane("/host:metadata")
    if metadata and "jax_version" in metadata.stats:
        return "jax"
    used = any(re.search(r"PjitFunction|\bjit_|_xla_|^jit\(", name) for name in rows.names)
    return "jax" if used else "tensorflow"
