"""Checks this machine for ``whyidle doctor``: what can be measured, what cannot, and how to close
each gap."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

from whyidle import catalog
from whyidle.model.diagnosis import Document
from whyidle.model.live.telemetry import Absent, Source, Target, split_key
from whyidle.record.monitor import live_sources
from whyidle.version import __version__

SCHEMA: Final = "whyidle/doctor/1"
Topic = Literal["software", "gpu", "host", "storage"]
State = Literal["ok", "gap", "note", "absent"]
"""ok: works · gap: not measurable or harmful, see ``close`` · note: worth knowing · absent: not
present and not needed"""


class Check(Document, frozen=True, kw_only=True):
    """One check. ``close`` is how to close a gap."""

    topic: Topic
    name: str
    state: State
    found: str
    means: str = ""
    close: str = ""


class Machine(Document, frozen=True, kw_only=True):
    """The whole document."""

    schema: Literal["whyidle/doctor/1"] = SCHEMA
    checks: list[Check]


def examine_machine(*, root: Path = Path("/"), environ: Mapping[str, str], store: Path) -> Machine:
    """Run all checks, in the order of the report. Changes nothing; imports plug-ins, but no
    frameworks. ``root`` is where the file system begins, ``store`` the folder of stored runs."""
    gpus = check_gpus(root)
    found = any(check.state == "ok" for check in gpus)
    return Machine(
        checks=[
            *check_software(gpu=found),
            *gpus,
            *_check_limits(root),
            *check_sources(root, environ, gpu=found),
            _check_store(store),
        ]
    )


FRAMEWORKS = (
    *("torch", "lightning", "pytorch-lightning", "transformers", "accelerate", "deepspeed"),
    *("tensorflow", "keras", "jax", "flax"),
)
EXTRAS = {
    "attach": "py-spy",
    "tune": "optuna",
    "serve": "uvicorn",
    "fleet": "duckdb",
    "fleet --ledger kubernetes": "lightkube",
}
"""verb -> a package of the extra of that name, without which it does not work; ``watch`` needs the
NVML binding, which has a check of its own"""


def _check(
    name: str,
    state: State,
    found: str,
    means: str = "",
    close: str = "",
    *,
    topic: Topic = "software",
) -> Check:
    return Check(topic=topic, name=name, state=state, found=found, means=means, close=close)


def check_software(*, gpu: bool) -> list[Check]:
    """Check the installed software."""
    python = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    python_check = _check("Python", "ok", f"{python}, whyidle {__version__}")
    return [
        python_check,
        *_check_frameworks(gpu=gpu),
        _check_nvml(gpu=gpu),
        *_check_verbs(),
        *_plugins(),
    ]


def _check_frameworks(*, gpu: bool) -> list[Check]:
    present = {name: v for name in FRAMEWORKS if (v := installed_version(name))}
    if not present:
        return [
            _check(
                "frameworks",
                "absent",
                "none in this environment",
                means="recordings can be explained, but nothing can be recorded",
                close="install whyidle in the environment of your training job",
            )
        ]
    listed = ", ".join(f"{name} {number}" for name, number in present.items())
    check = _check("frameworks", "ok", listed)
    if gpu and present.get("torch", "").endswith("+cpu"):
        return [
            check,
            _check(
                "torch build",
                "gap",
                "a CPU-only build on a machine with a GPU",
                means="training does not use the GPU",
                close="install the build for your driver: pytorch.org/get-started",
            ),
        ]
    return [check]


def _check_nvml(*, gpu: bool) -> Check:
    number = installed_version("nvidia-ml-py")
    if number:
        return _check("NVML binding", "ok", number)
    return _check(
        "NVML binding",
        "gap" if gpu else "absent",
        "nvidia-ml-py is not installed",
        means="whyidle watch sees no GPU, and runs do not record utilization, power or clocks",
        close="pip install 'whyidle[nvidia]'",
    )


def _check_verbs() -> list[Check]:
    """Whether each verb has its extra."""
    checks = []
    for verb, package in EXTRAS.items():
        number, close = installed_version(package), f"pip install 'whyidle[{verb.split()[-1]}]'"
        if number:
            checks.append(_check(f"whyidle {verb}", "ok", f"{package} {number}"))
        else:
            found = f"{package} is not installed"
            checks.append(_check(f"whyidle {verb}", "absent", found, close=close))
    return checks


def _plugins() -> list[Check]:
    examined = catalog.examine_plugins()
    good = ", ".join(name for name, error in examined.items() if error is None)
    checks = [_check("plug-ins", "ok", good)] if good else []
    for name, error in examined.items():
        if error is not None:
            why, close = error.why.rstrip("."), error.hint.rstrip(".")
            checks.append(_check(name, "gap", f"{error.what} {why}", close=close))
    return checks


def installed_version(package: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_gpus(root: Path) -> list[Check]:
    """Check NVIDIA's GPUs."""
    driver = (root / "proc/driver/nvidia/version").exists()
    nodes = [*(root / "dev").glob("nvidia[0-9]*")]
    if not (driver or nodes or (root == Path("/") and shutil.which("nvidia-smi"))):
        means = "recordings from other machines can still be explained here"
        return [_check("GPU", "absent", "none seen", means, topic="gpu")]
    library = _import_pynvml()
    if library is not None:
        return _read_nvml(library)
    means, close = "the GPU cannot be identified", "pip install 'whyidle[nvidia]'"
    found = "a driver, but not the NVML binding"
    return [_check("GPU", "gap", found, means, close, topic="gpu")]


def _import_pynvml() -> ModuleType | None:
    try:
        import pynvml  # noqa: PLC0415  # an extra
    except ImportError:
        return None
    return pynvml


def _read_nvml(nvml: Any) -> list[Check]:
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        names = [nvml.nvmlDeviceGetName(handle) for handle in handles]
        nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        means = "utilization, power, clocks and throttling are not recorded"
        close = "check that `nvidia-smi` works; start a container with --gpus all"
        return [_check("GPU", "gap", f"NVML fails: {error}", means, close, topic="gpu")]
    return [_check("GPU", "ok", name, topic="gpu") for name in names]


LEAST_SHM_BYTES: Final = 1 << 30
"""with the default of containers, 64 MiB, loader workers fail with a bus error"""
LEAST_FILES: Final = 4096
"""loader workers pass tensors as file descriptors"""


def _check_limits(root: Path) -> list[Check]:
    """Limits at which loader workers fail: shared memory and open files."""
    checks = []
    folder = root / "dev/shm"
    size = shutil.disk_usage(folder).total if folder.is_dir() else 0
    found, means, close = f"{size / 2**30:.3g} GiB", "", ""
    if size < LEAST_SHM_BYTES:
        means = "loader workers pass batches in shared memory, and fail where it is full"
        close = "start the container with --shm-size=8g or --ipc=host"
    checks.append(_check("/dev/shm", "gap" if close else "ok", found, means, close, topic="host"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_FILES:
        means = "many loader workers fail with 'too many open files'"
        close = f"ulimit -n {hard if 0 < hard < 65536 else 65536}"
        checks.append(_check("open files", "gap", f"{soft}", means, close, topic="host"))
    return checks


_NAMED = 4  # missing signals named individually, at most


def check_sources(
    root: Path,
    environ: Mapping[str, str],
    *,
    gpu: bool,
    sources: Mapping[str, Source] | None = None,
) -> list[Check]:
    """Check each live source (or those of ``sources``), with one further check per reason for
    missing signals. ``environ`` selects the GPUs of a job; without ``gpu`` their sources are
    skipped."""
    target = Target(environ=environ, root=root)
    read = live_sources() if sources is None else sources
    wanted = {name: source for name, source in read.items() if gpu or not _of_gpus(source)}
    return [
        check for name, source in wanted.items() for check in _check_source(name, source, target)
    ]


def _of_gpus(source: Source) -> bool:
    return all(meter.subject.startswith("gpu") for meter in source.SIGNALS)


def _check_source(name: str, source: Source, target: Target) -> list[Check]:
    topic: Topic = "gpu" if _of_gpus(source) else "host"
    availability = source.probe(target)
    title = f"telemetry of {name}"
    if isinstance(availability, Absent):
        means = "whyidle run does not record it"
        reason, close = availability.reason, availability.how
        return [_check(title, "gap", reason, means, close, topic=topic)]
    reasons: dict[Absent, list[str]] = {}
    for key, why in availability.missing.items():
        reasons.setdefault(why, []).append(split_key(key)[0])
    gone = {signal for signals in reasons.values() for signal in signals}
    offered = len(source.SIGNALS)
    found = f"{offered - len(gone)} of {offered} signals, every {source.PERIOD_S:g} s"
    return [
        _check(title, "ok", found, topic=topic),
        *(_signal_gap(topic, why, signals) for why, signals in reasons.items()),
    ]


def _signal_gap(topic: Topic, why: Absent, signals: list[str]) -> Check:
    names = list(dict.fromkeys(signals))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    found = f"{', '.join(names[:_NAMED])}{more}: {why.reason}"
    if not why.how:
        return _check("not read", "note", found, topic=topic)
    means = "checks that need them are skipped"
    return _check("not read", "gap", found, means, why.how, topic=topic)


def _check_store(store: Path) -> Check:
    existing = next(path for path in (store, *store.absolute().parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        return _check("run store", "ok", f"{store} can be written", topic="storage")
    means = "diagnoses are shown but not stored"
    close = "set WHYIDLE_HOME to a writable folder, or use --store DIR"
    return _check("run store", "gap", f"{store} cannot be written", means, close, topic="storage")
