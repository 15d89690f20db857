"""Profiles of TensorFlow, Keras and JAX (XPlane): one host, and its GPUs or TPUs if it has any."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from whyidle.errors import BrokenTraceError
from whyidle.frameworks.jax.names import VOCABULARY as JAX
from whyidle.frameworks.tensorflow.names import VOCABULARY as TENSORFLOW
from whyidle.model.timeline import InputStage, Source, Timeline
from whyidle.readers._events.event_rows import EventRows
from whyidle.readers._files.byte_stream import ByteStream, Progress
from whyidle.readers.xplane.hlo_places import read_operations
from whyidle.readers.xplane.xplane_devices import (
    add_device_steps,
    add_devices,
    device_of,
    device_planes,
)
from whyidle.readers.xplane.xplane_hosts import HostReader
from whyidle.readers.xplane.xspace import Line, Plane, Space, Stat, read_space

SUFFIXES = (".xplane.pb", ".xplane.pb.gz")
_MAGIC = re.compile(
    rb"\n.{1,5}?(?:\x08.{1,10}?)?\x12.(?:/host:|/device:|Task Environment)", re.DOTALL
)
_STAGE: Final = re.compile(r"^Iterator::Root(?:::\w+)*$")
_THREAD: Final = re.compile(r"^tf_data_")
_FUNCTION: Final = re.compile(r":(PyFunc|EagerPyFunc|\w*Decode\w*|\w*Resize\w*|\w*Read\w*)$")
_MOST_OF_IT: Final = 0.5
"""an inner stage that takes this much of the outermost one's time is what that waits for"""
_PARALLEL: Final = ("parallelism", "num_parallel_calls", "cycle_length")
_MOST_BYTES = (2 << 30) + 1
"""protocol buffers are limited to 2 GiB"""
_IGNORED = "events with impossible times were ignored"
_SINCE_1970_NS = 10**17
"""times above count from 1970; below, from the start of the profile"""


def sniff(head: bytes) -> bool:
    """Return whether a file's first (decompressed) bytes have this format."""
    return _MAGIC.match(head) is not None


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


class _Stage(NamedTuple):
    path: str
    mean_ns: float
    stats: Mapping[str, Stat]


def find_slowest_stage(plane: Plane) -> InputStage | None:
    """The innermost stage that takes most of the time of a batch, and its function; None if the
    profile has no pipeline."""
    stages = [
        _Stage(
            name, _mean_ns(line, number), plane.event_stats(line.spans[_first_row(line, number)])
        )
        for line in plane.lines
        for number in np.unique(line.metadata).tolist()
        if _STAGE.match(name := plane.event_name(number))
    ]
    longest = max((stage.mean_ns for stage in stages), default=0.0)
    slow = [stage for stage in stages if stage.mean_ns >= _MOST_OF_IT * longest > 0]
    if not slow:
        return None
    stage = max(slow, key=lambda one: one.path.count("::"))
    calls = next((stage.stats[key] for key in _PARALLEL if key in stage.stats), None)
    function, function_s = _slowest_function(plane)
    return InputStage(
        name=stage.path.rpartition("::")[2],
        seconds=stage.mean_ns / 1e9,
        parallel=calls if isinstance(calls, int) else None,
        function=function,
        function_s=function_s,
    )


def _slowest_function(plane: Plane) -> tuple[str, float]:
    """The operator of the pipeline's functions that takes most of the time, if it is known to read,
    to decode or to run Python, and the seconds of a call."""
    totals: dict[str, tuple[float, float]] = {}
    for line in plane.lines:
        if not _THREAD.match(line.name):
            continue
        for number in np.unique(line.metadata).tolist():
            match = _FUNCTION.search(plane.event_name(number))
            if match:
                spent = float(np.maximum(line.length_ps[line.metadata == number], 0).sum())
                total, _ = totals.get(match[1], (0.0, 0.0))
                totals[match[1]] = total + spent, _mean_ns(line, number)
    if not totals:
        return "", 0.0
    name, (_, mean) = max(totals.items(), key=lambda item: item[1][0])
    return name, mean / 1e9


def _mean_ns(line: Line, number: int) -> float:
    lengths = line.length_ps[(line.metadata == number) & (line.length_ps >= 0)]
    return float(lengths.mean()) / 1e3 if len(lengths) else 0.0


def _first_row(line: Line, number: int) -> int:
    return int(np.argmax(line.metadata == number))


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
