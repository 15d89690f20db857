"""Header of a trace: device, rank, host. All of it may be missing or wrong."""

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
_NAMED_DEVICES = {
    "xpu": "Intel GPU (XPU)",
    "hpu": "Intel Gaudi (HPU)",
    "mtia": "Meta MTIA",
    "privateuse1": "device of a plug-in (PrivateUse1)",
}
"""accelerators whose traces have no deviceProperties, by the prefix of their categories"""
_MPS_NAMES = ("aten::mps_", "aten::_mps_", "aten::linear_backward")
"""operators of Apple's GPUs, of which the profiler records no kernels"""
_AMD = re.compile(r"\bAMD\b|\bMI\d{2,3}|Radeon|gfx\d", re.I)


class ProcessPlace(NamedTuple):
    """Rank and host of a process; None: not recorded."""

    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    hostname: str | None = None


def place_of(header: Mapping[str, Any], path: Path, member: str | None = None) -> ProcessPlace:
    """Return the place by the header, else by the names of the file and its folder."""
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    rank, world = to_natural(distributed.get("rank")), to_natural(distributed.get("world_size"))
    parts = [*path.absolute().parts[-3:], *(member.split("/") if member else ())]
    named = rank_in_names(parts[-3:])
    rank = named[0] if rank is None else rank
    world = named[1] if world is None else world
    backend = distributed.get("backend")
    host = header.get("host_name")
    worker = _WORKER.match(parts[-1])
    return ProcessPlace(
        rank=rank,
        world_size=world,
        backend=backend if isinstance(backend, str) else None,
        hostname=host if isinstance(host, str) else worker["host"] if worker else None,
    )


def rank_in_names(names: Iterable[str]) -> tuple[int | None, int | None]:
    """Return (rank, world size) from names of a file and its folders, if unambiguous."""
    for name in reversed(list(names)):
        matches = {(int(m[1]), int(m[2]) if m[2] else None) for m in _RANK.finditer(name)}
        if len({rank for rank, _ in matches}) > 1:
            return None, None
        if matches:
            rank, world = next(iter(matches))
            return rank, world if world and world > rank else None
    return None, None


def to_natural(value: Any) -> int | None:
    """Return a value as an integer of at least 0, or None."""
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
    """Return the accelerator by header, event names and categories; ``main_device`` is the index of
    the device with the most events."""
    listed = header.get("deviceProperties") or header.get("computeProperties")
    items = listed if isinstance(listed, list) else []
    devices = [item for item in items if isinstance(item, dict)]
    main = [item for item in devices if item.get("id") == main_device]
    first = (main or devices or [{}])[0]
    name = first.get("name") if isinstance(first.get("name"), str) else None
    major = to_natural(first.get("computeMajor", first.get("major")))
    minor = to_natural(first.get("computeMinor", first.get("minor")))
    names = tuple(names)
    kind = _device_kind(header, name, names, {category.lower() for category in categories})
    if kind == "other" and _on_mps(names):
        name = name or "Apple GPU (MPS)"
    return DeviceInfo(
        kind="other" if kind == "cpu" and (devices or main_device is not None) else kind,
        name=name or _NAMED_DEVICES.get(_accelerator(categories)),
        count=len(devices),
        memory_bytes=to_natural(first.get("totalGlobalMem")) or None,
        sm_count=to_natural(first.get("numSms")) or None,
        capability=None if major is None else (major, minor or 0),
        peaks=_device_peaks(first.get("peaks")),
    )


def _accelerator(categories: Iterable[str]) -> str:
    """The prefix of an accelerator's categories, such as ``xpu``; empty without one."""
    prefixes = {category.lower().partition("_")[0] for category in categories}
    return next((prefix for prefix in _NAMED_DEVICES if prefix in prefixes), "")


def _device_peaks(peaks: Any) -> tuple[float, float, float, float, float] | None:
    """Of a device that is in no table, such as an emulated one."""
    names = ("fp32", "tf32", "fp16", "bf16", "bandwidth")
    if not isinstance(peaks, dict) or not all(
        isinstance(peaks.get(n), (int, float)) for n in names
    ):
        return None
    fp32, tf32, fp16, bf16, bandwidth = (float(peaks[name]) for name in names)
    return fp32, tf32, fp16, bf16, bandwidth


def _device_kind(
    header: Mapping[str, Any], name: str | None, names: tuple[str, ...], cats: set[str]
) -> str:
    """The kind of device; a GPU job's recording of the CPU side alone still has GPU names."""
    runtimes = {cat for cat in cats if cat.endswith(("_runtime", "_driver"))}
    if any(cat.startswith(("xpu_", "mtia_", "privateuse1_", "hpu_")) for cat in cats):
        return "other"
    if any(key in header for key in _ROCM_KEYS) or (name and _AMD.search(name)):
        return "rocm"
    if any(text.startswith(_ROCM_NAMES) for text in names):
        return "rocm"
    if runtimes - {"cuda_runtime", "cuda_driver"}:
        return "other"
    distributed = header.get("distributedInfo")
    nccl = isinstance(distributed, dict) and distributed.get("backend") == "nccl"
    if runtimes or name or cats & {"kernel", "gpu_memcpy"} or nccl:
        return "cuda"
    if any(text.startswith(_GPU_ONLY_NAMES) for text in names):
        return "cuda"
    return "other" if _on_mps(names) else "cpu"


def _on_mps(names: Iterable[str]) -> bool:
    return any(text.startswith(_MPS_NAMES) for text in names)
