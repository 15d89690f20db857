"""GPUs, their drivers, and what they allow to be measured."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

from whyidle.model.machine import Check

_SMI = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
_SMI_TIMEOUT_S = 10.0
_NONE_MEANS = "recordings made elsewhere can be explained here all the same"


def check_gpus(root: Path) -> list[Check]:
    """NVIDIA first, then AMD; or that there is none."""
    found = [*_check_nvidia(root), *_check_amd(root)]
    if found:
        return found
    return [Check(topic="gpu", name="GPU", state="absent", found="none seen", means=_NONE_MEANS)]


def _check_nvidia(root: Path) -> list[Check]:
    driver = _read_text(root / "proc/driver/nvidia/version")
    nodes = sorted((root / "dev").glob("nvidia[0-9]*"))
    smi = shutil.which("nvidia-smi") if root == Path("/") else None
    if not (driver or nodes or smi):
        return []
    found = [_check_driver(driver, smi), *_check_counters(root)]
    library = _import_pynvml()
    if library is not None:
        return [*found, *_by_nvml(library)]
    return [*found, _by_smi(smi)]


def _check_driver(text: str, smi: str | None) -> Check:
    match = re.search(r"Kernel Module(?:\s+for \S+)?\s+(\d[\d.]+)", text)
    tools = "nvidia-smi is there" if smi else "no nvidia-smi"
    if not match:
        return Check(
            topic="gpu",
            name="NVIDIA driver",
            state="note",
            found=f"its version is not shown here; {tools}",
        )
    return Check(topic="gpu", name="NVIDIA driver", state="ok", found=f"{match[1]}; {tools}")


def _check_counters(root: Path) -> list[Check]:
    """Hardware counters are for administrators unless the driver was told otherwise. Kernel times,
    which the PyTorch profiler records, need no such right."""
    match = re.search(
        r"RmProfilingAdminOnly:\s*(\d)", _read_text(root / "proc/driver/nvidia/params")
    )
    if not match:
        return []
    if match[1] == "0":
        return [Check(topic="gpu", name="hardware counters", state="ok", found="open to all users")]
    return [
        Check(
            topic="gpu",
            name="hardware counters",
            state="gap",
            found="for administrators only (RmProfilingAdminOnly: 1)",
            means="kernel times are recorded as ever; counters inside kernels are not",
            close="options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, and "
            "load the driver again; or run as administrator (in a container: CAP_SYS_ADMIN)",
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
            Check(
                topic="gpu",
                name="GPU",
                state="gap",
                found=f"NVML does not start: {error}",
                means="no utilisation, power, clocks and throttling",
                close="check that `nvidia-smi` works; in a container start it with --gpus all",
            )
        ]
    try:
        count = nvml.nvmlDeviceGetCount()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        return [*(_check_device(nvml, handle) for handle in handles), _check_gpm(nvml, handles)]
    except nvml.NVMLError as error:
        return [
            Check(
                topic="gpu",
                name="GPU",
                state="gap",
                found=f"NVML fails: {error}",
                close="nvidia-smi",
            )
        ]
    finally:
        nvml.nvmlShutdown()


def _check_device(nvml: Any, handle: Any) -> Check:
    name = nvml.nvmlDeviceGetName(handle)
    name = name.decode() if isinstance(name, bytes) else name
    memory = nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30
    mig = ""
    with contextlib.suppress(nvml.NVMLError):  # older devices have no such mode
        mig = ", MIG on" if nvml.nvmlDeviceGetMigMode(handle)[0] else ""
    return Check(topic="gpu", name="GPU", state="ok", found=f"{name}, {memory:.0f} GiB{mig}")


def _check_gpm(nvml: Any, handles: list[Any]) -> Check:
    """GPU Performance Monitoring: SM, tensor-core and memory activity without a profiler."""
    close = "needs a GPU of the Hopper generation or later, outside MIG; DCGM helps on older ones"
    try:
        able = bool(handles) and all(
            nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice for handle in handles
        )
    except (nvml.NVMLError, AttributeError):
        able = False
    return Check(
        topic="gpu",
        name="GPM",
        state="ok" if able else "gap",
        found="supported" if able else "not supported by device or driver",
        means="" if able else "no SM, tensor-core and memory activity while a job runs",
        close="" if able else close,
    )


def _by_smi(smi: str | None) -> Check:
    if smi is None:
        return Check(
            topic="gpu",
            name="GPU",
            state="gap",
            found="a driver without nvidia-smi and without NVML's binding",
            means="which GPU it is cannot be told",
            close="pip install 'whyidle[nvidia]'",
        )
    try:
        done = subprocess.run(
            [smi, *_SMI[1:]], capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(topic="gpu", name="GPU", state="gap", found=f"nvidia-smi fails: {error}")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not lines:
        said = (lines or [done.stderr.strip() or "nothing"])[0]
        return Check(topic="gpu", name="GPU", state="gap", found=f"nvidia-smi says: {said}")
    return Check(topic="gpu", name="GPU", state="ok", found="; ".join(lines))


def _check_amd(root: Path) -> list[Check]:
    names = [
        _read_text(node / "name") or "gfx"
        for node in sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*"))
        if re.search(r"^simd_count [1-9]", _read_text(node / "properties"), re.MULTILINE)
    ]
    if not names:
        return []
    tools = [tool for tool in ("amd-smi", "rocm-smi") if shutil.which(tool)]
    return [
        Check(topic="gpu", name="GPU", state="ok", found=f"AMD: {', '.join(names)}"),
        Check(
            topic="gpu",
            name="AMD tools",
            state="ok" if tools else "gap",
            found=", ".join(tools) or "neither amd-smi nor rocm-smi",
            means="" if tools else "no utilisation and power while a job runs",
            close="" if tools else "install ROCm's amd-smi",
        ),
    ]


def _read_text(path: Path) -> str:
    """A small file's text; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
