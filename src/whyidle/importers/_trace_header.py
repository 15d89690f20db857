"""What a trace says beside its events: device, rank, host. All of it may be missing or wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from whyidle.model.timeline import DeviceInfo

_RANK = re.compile(
    r"(?<![a-z])(?<!lora[-_])rank[-_=. ]?(\d{1,6})(?:[-_]?of[-_]?(\d{1,6}))?(?!\d)", re.I
)
_WORKER = re.compile(r"^(?P<host>.+?)_\d+\.\d+\.pt\.trace\.json(\.gz)?$")
_GPU_ONLY_NAMES = (
    *("nccl:", "rccl:", "aten::record_stream", "aten::cudnn_", "aten::_cudnn", "aten::pin_memory"),
    *("aten::_pin_memory", "c10d::nccl", "cuda", "cuLaunch", "cuMemcpy"),
)
_ROCM_NAMES = ("hip", "aten::miopen")
_ROCM_KEYS = (
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
    "rocprofiler-sdk_version",
)
_AMD = re.compile(r"\bAMD\b|\bMI\d{2,3}|Radeon|gfx\d", re.I)


class ProcessPlace(NamedTuple):
    """Where in its job a process ran; None = not recorded."""

    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    hostname: str | None = None


def place_of(header: Mapping[str, Any], path: Path, member: str | None = None) -> ProcessPlace:
    """From the header, else from the names of the file and of its folder."""
    given = header.get("distributedInfo")
    given = given if isinstance(given, dict) else {}
    rank, world = to_natural(given.get("rank")), to_natural(given.get("world_size"))
    parts = [*path.absolute().parts[-3:], *(member.split("/") if member else ())]
    named = rank_in_names(parts[-3:])
    if rank is None:
        rank = named[0]
    if world is None:
        world = named[1]
    backend = given.get("backend")
    host = header.get("host_name")
    worker = _WORKER.match(parts[-1])
    return ProcessPlace(
        rank=rank,
        world_size=world,
        backend=backend if isinstance(backend, str) else None,
        hostname=host if isinstance(host, str) else worker["host"] if worker else None,
    )


def rank_in_names(names: Iterable[str]) -> tuple[int | None, int | None]:
    """(rank, world size) from names of a file and its folders, the last name first. Two different
    ranks in one name say nothing."""
    for name in reversed(list(names)):
        found = {(int(m[1]), int(m[2]) if m[2] else None) for m in _RANK.finditer(name)}
        if len({rank for rank, _ in found}) > 1:
            return None, None
        if found:
            rank, world = next(iter(found))
            return rank, world if world and world > rank else None
    return None, None


def to_natural(value: Any) -> int | None:
    """A value as an integer of at least 0, or None."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number < 1 << 63 else None


def device_of(
    header: Mapping[str, Any],
    names: Iterable[str],
    categories: Iterable[str],
    main_device: int | None,
) -> DeviceInfo:
    """The accelerator.

    Args:
        header: the top-level keys.
        names: of all events.
        categories: of all complete events.
        main_device: the index of the device with the most events; None without any.
    """
    listed = header.get("deviceProperties") or header.get("computeProperties")
    devices = (
        [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    )
    mine = [item for item in devices if item.get("id") == main_device]
    first = (mine or devices or [{}])[0]
    name = first.get("name") if isinstance(first.get("name"), str) else None
    major = to_natural(first.get("computeMajor", first.get("major")))
    minor = to_natural(first.get("computeMinor", first.get("minor")))
    kind = _device_kind(header, name, tuple(names), {category.lower() for category in categories})
    return DeviceInfo(
        kind="other" if kind == "cpu" and (devices or main_device is not None) else kind,
        name=name,
        count=len(devices),
        memory_bytes=to_natural(first.get("totalGlobalMem")) or None,
        sm_count=to_natural(first.get("numSms")) or None,
        capability=None if major is None else (major, minor or 0),
        peaks=_device_peaks(first.get("peaks")),
    )


def _device_peaks(told: Any) -> tuple[float, float, float, float, float] | None:
    """Of a device that no table has (an emulated one)."""
    names = ("fp32", "tf32", "fp16", "bf16", "bandwidth")
    if not isinstance(told, dict) or not all(isinstance(told.get(n), (int, float)) for n in names):
        return None
    fp32, tf32, fp16, bf16, bandwidth = (float(told[name]) for name in names)
    return fp32, tf32, fp16, bf16, bandwidth


def _device_kind(
    header: Mapping[str, Any], name: str | None, names: tuple[str, ...], cats: set[str]
) -> str:
    """A recording of a GPU job's CPU side alone is still a GPU job's: its names give it away."""
    runtimes = {cat for cat in cats if cat.endswith(("_runtime", "_driver"))}
    if any(cat.startswith(("xpu_", "mtia_", "privateuse1_", "hpu_")) for cat in cats):
        return "other"
    if any(key in header for key in _ROCM_KEYS) or (name and _AMD.search(name)):
        return "rocm"
    if any(text.startswith(_ROCM_NAMES) for text in names):
        return "rocm"
    if runtimes - {"cuda_runtime", "cuda_driver"}:
        return "other"
    if runtimes or name or cats & {"kernel", "gpu_memcpy"} or _nccl_metadata(header):
        return "cuda"
    return "cuda" if any(text.startswith(_GPU_ONLY_NAMES) for text in names) else "cpu"


def _nccl_metadata(header: Mapping[str, Any]) -> bool:
    given = header.get("distributedInfo")
    return isinstance(given, dict) and given.get("backend") == "nccl"
