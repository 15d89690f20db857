"""Checks of GPUs, drivers and permissions for measurements."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

from whyidle.machine.sources._open_file import read_text
from whyidle.model.machine import Check, State

_NONE_MEANS = "recordings from other machines can still be explained here"


def _check(name: str, state: State, found: str, means: str = "", close: str = "") -> Check:
    return Check(topic="gpu", name=name, state=state, found=found, means=means, close=close)


def check_gpus(root: Path) -> list[Check]:
    """Check NVIDIA and AMD GPUs."""
    found = [*_check_nvidia(root), *_check_amd(root)]
    if found:
        return found
    return [_check("GPU", "absent", "none seen", means=_NONE_MEANS)]


def _check_nvidia(root: Path) -> list[Check]:
    driver = read_text(root / "proc/driver/nvidia/version")
    nodes = sorted((root / "dev").glob("nvidia[0-9]*"))
    smi = shutil.which("nvidia-smi") if root == Path("/") else None
    if not (driver or nodes or smi):
        return []
    found = [_check_driver(driver, smi), *_check_counters(root)]
    library = _import_pynvml()
    if library is not None:
        return [*found, *_by_nvml(library)]
    means, close = "the GPU cannot be identified", "pip install 'whyidle[nvidia]'"
    return [*found, _check("GPU", "gap", "a driver, but not the NVML binding", means, close)]


def _check_driver(text: str, smi: str | None) -> Check:
    match = re.search(r"Kernel Module(?:\s+for \S+)?\s+(\d[\d.]+)", text)
    tools = "nvidia-smi found" if smi else "no nvidia-smi"
    if not match:
        return _check("NVIDIA driver", "note", f"version unknown; {tools}")
    return _check("NVIDIA driver", "ok", f"{match[1]}; {tools}")


def _check_counters(root: Path) -> list[Check]:
    """Hardware counters require administrator rights by default; kernel times do not."""
    match = re.search(
        r"RmProfilingAdminOnly:\s*(\d)", read_text(root / "proc/driver/nvidia/params")
    )
    if not match:
        return []
    if match[1] == "0":
        return [_check("hardware counters", "ok", "open to all users")]
    return [
        _check(
            "hardware counters",
            "gap",
            "for administrators only (RmProfilingAdminOnly: 1)",
            means="kernel times are recorded, but no counters inside kernels",
            close="set options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d and "
            "reload the driver, or run as administrator (in a container: CAP_SYS_ADMIN)",
        )
    ]


def _import_pynvml() -> ModuleType | None:
    try:
        import pynvml  # noqa: PLC0415  # an extra
    except ImportError:
        return None
    return pynvml


def _by_nvml(nvml: Any) -> list[Check]:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return [
            _check(
                "GPU",
                "gap",
                f"NVML cannot be initialised: {error}",
                means="utilization, power, clocks and throttling are not recorded",
                close="check that `nvidia-smi` works; start a container with --gpus all",
            )
        ]
    try:
        count = nvml.nvmlDeviceGetCount()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        return [_check_device(nvml, handle) for handle in handles]
    except nvml.NVMLError as error:
        return [_check("GPU", "gap", f"NVML fails: {error}", close="nvidia-smi")]
    finally:
        nvml.nvmlShutdown()


def _check_device(nvml: Any, handle: Any) -> Check:
    name = nvml.nvmlDeviceGetName(handle)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30
    mig = ""
    with contextlib.suppress(nvml.NVMLError):  # older devices have no such mode
        mig = ", MIG on" if nvml.nvmlDeviceGetMigMode(handle)[0] else ""
    return _check("GPU", "ok", f"{name}, {memory:.0f} GiB{mig}")


def _check_amd(root: Path) -> list[Check]:
    names = [
        read_text(node / "name") or "gfx"
        for node in sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*"))
        if re.search(r"^simd_count [1-9]", read_text(node / "properties"), re.MULTILINE)
    ]
    if not names:
        return []
    return [
        _check("GPU", "ok", f"AMD: {', '.join(names)}"),
        _check(
            "AMD telemetry",
            "gap",
            "not read",
            means="utilization, memory and power are not recorded; profiles of kernels are",
            close="amd-smi monitor shows them beside the job",
        ),
    ]
