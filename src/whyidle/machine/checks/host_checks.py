"""Checks of cores, memory, limits and storage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import psutil

from whyidle.machine.sources._control_group import ControlGroup
from whyidle.machine.sources._group_hierarchy import GroupHierarchy
from whyidle.model.live.telemetry import Reading
from whyidle.model.machine import Check, State, Topic

LEAST_SHM_BYTES = 1 << 30
"""with the default of containers, 64 MiB, loader workers fail with a bus error"""
NETWORKED = frozenset(
    ["nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "gpfs", "ceph", "beegfs", "afs", "virtiofs"]
)
"""file systems with slow small random reads"""


def _check(
    name: str, state: State, found: str, means: str = "", close: str = "", *, topic: Topic = "host"
) -> Check:
    return Check(topic=topic, name=name, state=state, found=found, means=means, close=close)


def check_host(root: Path, environ: Mapping[str, str]) -> list[Check]:
    """Check cores, memory, shared memory, open files and the container."""
    limits = group_limits(root)
    return [
        _check_cores(limits["cores_quota"]),
        _check_memory(limits["group_memory_limit_bytes"]),
        _shared_memory(root),
        *_check_open_files(),
        _container(root, environ),
    ]


def group_limits(root: Path) -> Reading:
    """What this process's control group allows, as ``whyidle run`` records it."""
    group, values = ControlGroup(GroupHierarchy(root, 0), 0), Reading()
    group.read(values)
    group.close()
    return values


def _check_cores(quota: float | None) -> Check:
    whole = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else whole
    usable = min(allowed, quota) if quota is not None else allowed
    limit = f", a quota of {quota:g}" if quota is not None else ""
    found = f"{usable:g} usable ({whole} in the machine, {allowed} by affinity{limit})"
    if usable >= whole:
        return _check("cores", "ok", found)
    return _check(
        "cores",
        "note",
        found,
        means=f"more than {max(1, int(usable))} loader workers per machine share cores; libraries "
        "that use the machine's core count start too many threads",
    )


def _check_memory(limit: float | None) -> Check:
    memory = psutil.virtual_memory()
    found = f"{_format_gib(memory.available)} of {_format_gib(memory.total)} available"
    if limit is not None and limit < memory.total:
        return _check(
            "memory",
            "note",
            f"limited to {_format_gib(limit)} by the control group ({found} in the machine)",
            means="the job is killed if it and its loader workers use more",
        )
    return _check("memory", "ok", found)


def _shared_memory(root: Path) -> Check:
    folder = root / "dev/shm"
    if not folder.is_dir():
        return _check(
            "/dev/shm", "note", "none", means="loader workers may be unable to pass batches"
        )
    usage = shutil.disk_usage(folder)
    found = f"{_format_gib(usage.free)} of {_format_gib(usage.total)} free"
    if usage.total >= LEAST_SHM_BYTES:
        return _check("/dev/shm", "ok", found)
    return _check(
        "/dev/shm",
        "gap",
        found,
        means="loader workers pass batches in shared memory, and fail with a bus error if it is "
        "full",
        close="start the container with --shm-size=8g or --ipc=host",
    )


def _check_open_files() -> list[Check]:
    try:
        import resource  # noqa: PLC0415  # not on Windows
    except ImportError:
        return []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    found = f"{'unlimited' if unlimited else soft}"
    # loader workers pass tensors as file descriptors
    if unlimited or soft >= 4096:
        return [_check("open files", "ok", found)]
    return [
        _check(
            "open files",
            "gap",
            found,
            means="many loader workers fail with 'too many open files'",
            close=f"ulimit -n {hard if 0 < hard < 65536 else 65536}",
        )
    ]


def _container(root: Path, environ: Mapping[str, str]) -> Check:
    kind = check_container(root, environ)
    if kind is None:
        return _check("container", "ok", "none seen")
    return _check(
        "container",
        "note",
        kind,
        means="the limits above are those of the container; processes outside it are not visible",
    )


def check_container(root: Path, environ: Mapping[str, str]) -> str | None:
    """The kind of container; None if none is recognised."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "Kubernetes"
    if (root / "run/.containerenv").exists():
        return "Podman"
    if (root / ".dockerenv").exists():
        return "Docker"
    if environ.get("container"):
        return environ["container"]
    if "SINGULARITY_NAME" in environ or "APPTAINER_NAME" in environ:
        return "Apptainer"
    return None


def check_storage(root: Path, folder: Path, store: Path) -> list[Check]:
    """Check the storage of the working folder and of the run store."""
    return [_check_disk(root, folder), _check_store(store)]


def _check_disk(root: Path, folder: Path) -> Check:
    usage = shutil.disk_usage(folder)
    kind = file_system(root, folder)
    found = (
        f"{kind or 'unknown file system'}, {_format_gib(usage.free)} of "
        f"{_format_gib(usage.total)} free"
    )
    slow = kind is not None and (kind in NETWORKED or kind.startswith("fuse"))
    if usage.free < 0.02 * usage.total:
        means, close = "traces and checkpoints may not fit", "free some space, or use another disk"
        return _check("working folder", "gap", found, means, close, topic="storage")
    means = (
        "small random reads are slow here; pack the dataset into few large files, or copy it to a "
        "local disk"
    )
    state: State = "note" if slow else "ok"
    return _check("working folder", state, found, means if slow else "", topic="storage")


def file_system(root: Path, folder: Path) -> str | None:
    """The file system type of a folder; None if unknown."""
    try:
        lines = (root / "proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    best: tuple[int, str] | None = None
    for line in lines:
        _, where, kind, *_ = line.split(" ")
        point = Path(where.replace("\\040", " "))
        if (folder == point or point in folder.parents) and (
            best is None or len(point.parts) >= best[0]
        ):
            best = (len(point.parts), kind)
    return best[1] if best else None


def _check_store(store: Path) -> Check:
    existing = next(path for path in (store, *store.absolute().parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        return _check("run store", "ok", f"{store} can be written", topic="storage")
    means = "diagnoses are shown but not stored"
    close = "set WHYIDLE_HOME to a writable folder, or use --store DIR"
    return _check("run store", "gap", f"{store} cannot be written", means, close, topic="storage")


def _format_gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB" if size < 100 * 2**30 else f"{size / 2**30:.0f} GiB"
