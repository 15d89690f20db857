"""Device planes of a profile: streams of GPUs, operations and steps of TPU cores."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from whyidle.model.timeline import DeviceInfo, DeviceKind, HostKind
from whyidle.readers._events.event_rows import EventRows, find_innermost
from whyidle.readers.xplane.xspace import Line, Plane, Space, Stat

_DEVICE: Final = re.compile(r"^/device:(GPU|TPU|CUSTOM):(\w+)(?! Trace)$")
_STREAM: Final = re.compile(r"^Stream #(\d+)")
_OPERATIONS: Final = re.compile(r"^(Async )?XLA Ops$")
_COPY: Final = re.compile(r"^Memcpy|^Copy(Device|Host|Peer|P)To|copyBuffer", re.I)
_SET: Final = re.compile(r"^Memset|fillBuffer", re.I)
_DETAIL: Final = re.compile(r"(\w+):(\S+)")
_INFEED: Final = re.compile(r"^infeed\b")
_COLLECTIVE: Final = re.compile(
    r"^(all_reduce|all_gather|all_to_all|reduce_scatter|collective_permute|send|recv)"
)
STEP_NUMBER: Final = "#step_num="
"""stands before the number in the name of a step's mark, as TensorFlow writes it"""


class DevicePlane(NamedTuple):
    """The plane of a GPU or TPU core."""

    plane: Plane
    kind: str


def device_planes(space: Space) -> list[DevicePlane]:
    """The planes of devices, in order."""
    matches = ((plane, _DEVICE.match(plane.name)) for plane in space.planes)
    return [DevicePlane(plane, match[1]) for plane, match in matches if match]


def device_of(planes: Sequence[DevicePlane]) -> DeviceInfo:
    """The accelerator, by the first plane with work; a CPU without one."""
    first = next((device for device in planes if device.plane.lines), None)
    if first is None:
        return DeviceInfo()
    stats = first.plane.stats
    amd = stats.get("device_vendor") == "AMD"
    kind = {"GPU": "rocm" if amd else "cuda", "TPU": "tpu"}.get(first.kind, "other")
    name = stats.get("device_type_string", stats.get("device_name"))
    major = _natural(stats, "compute_cap_major")
    info = DeviceInfo(
        kind=kind,
        name=name if isinstance(name, str) else None,
        count=len(planes),
        memory_bytes=_natural(stats, "memory_size"),
        sm_count=_natural(stats, "core_count"),
    )
    capability = None if major is None else (major, _natural(stats, "compute_cap_minor") or 0)
    return replace(info, capability=capability if kind != "tpu" else None)


def _natural(stats: Mapping[str, Stat], name: str) -> int | None:
    value = stats.get(name)
    return value if isinstance(value, int) and 0 < value < 1 << 62 else None


def add_devices(
    planes: Sequence[DevicePlane], rows: EventRows, directions: Mapping[int, str]
) -> None:
    """Append the work of every device. ``directions`` are those of the host's copy calls, by
    correlation id."""
    for number, (plane, _) in enumerate(planes):
        for line in plane.lines:
            if stream := _STREAM.match(line.name):
                place = {"device": number, "stream": int(stream[1])}
                _add_stream(plane, line, rows, directions, place)
            elif _OPERATIONS.match(line.name):
                _add_operations(plane, line, number, rows)


def _add_stream(
    plane: Plane,
    line: Line,
    rows: EventRows,
    directions: Mapping[int, str],
    place: Mapping[str, int],
) -> None:
    names, kinds, links, sizes = [], [], [], []
    for number, span in zip(line.metadata.tolist(), line.spans, strict=True):
        stats = plane.event_stats(span)
        name, kind, size = plane.event_name(number), DeviceKind.KERNEL, -1
        link = _natural(stats, "correlation_id") or -1
        if _SET.search(name):
            kind = DeviceKind.MEMSET
        elif _COPY.search(name):
            kind = DeviceKind.MEMCPY
            details = dict(_DETAIL.findall(str(stats.get("memcpy_details", ""))))
            name = _name_copy(name, details, directions.get(link, ""))
            size = int(details.get("size", "")) if details.get("size", "").isdecimal() else -1
        names.append(name)
        kinds.append(kind)
        links.append(link)
        sizes.append(size if 0 < size < 1 << 62 else -1)
    rows.add_device(
        line.start,
        line.end,
        kind=kinds,
        name=rows.name_codes(names),
        corr=links,
        size=sizes,
        **place,
    )


def _name_copy(name: str, details: Mapping[str, str], direction: str) -> str:
    """The name of a copy, as PyTorch's profiler writes it: direction and kinds of memory. ROCm's
    copies are kernels without a direction; the call that launched them has one."""
    source, target = details.get("kind_src", ""), details.get("kind_dst", "")
    kinds = f" ({source.capitalize()} -> {target.capitalize()})" if source and target else ""
    recorded = re.sub(r"^Memcpy|^Copy|DeviceTo|HostTo", "", name)
    return f"Memcpy {direction}{kinds}" if direction else f"{name}{kinds}" if recorded else name


def _add_operations(plane: Plane, line: Line, device: int, rows: EventRows) -> None:
    """Operations of a TPU core without those that only enclose others, such as a loop, and without
    waits for input. Of asynchronous ones only collectives count: copies run beside the work."""
    innermost = find_innermost(line.start, line.end)
    texts = {number: _operation_name(plane, number) for number in np.unique(line.metadata).tolist()}
    waiting = [number for number, text in texts.items() if _INFEED.match(text)]
    kept = innermost & (line.length_ps >= 0)
    if line.name.startswith("Async"):
        exchanging = [number for number, text in texts.items() if _COLLECTIVE.match(text)]
        kept &= np.isin(line.metadata, exchanging)
    waits = kept & np.isin(line.metadata, waiting)
    kept &= ~waits
    rows.add_device(
        line.start[kept],
        line.end[kept],
        kind=DeviceKind.KERNEL,
        name=rows.name_codes([texts[number] for number in line.metadata[kept].tolist()]),
        device=device,
        stream=int(line.name.startswith("Async")),
    )
    rows.add_host(
        line.start[waits],
        line.end[waits],
        kind=HostKind.ANNOTATION,
        name=rows.names["infeed"],
        thread=rows.threads[f"{plane.name}/Steps"],
    )


def _operation_name(plane: Plane, number: int) -> str:
    """The name of an operation of XLA, with underscores, as kernels of collectives have them."""
    shared = plane.events.get(number)
    name = (shared.display_name or shared.name.partition(" = ")[0]) if shared else ""
    return name.lstrip("%").replace("-", "_")


def add_device_steps(planes: Sequence[DevicePlane], rows: EventRows) -> bool:
    """Append the steps that the first TPU core records. Returns whether it has some."""
    for plane, _ in planes:
        for line in plane.lines:
            if line.name != "Steps" or len(line.metadata) < 2:
                continue
            order = np.argsort(line.start, kind="stable")
            names = [f"step{STEP_NUMBER}{i}" for i in range(len(order))]
            rows.add_host(
                line.start[order],
                line.end[order],
                kind=HostKind.ANNOTATION,
                name=rows.name_codes(names),
                thread=rows.threads[f"{plane.name}/Steps"],
            )
            return True
    return False
