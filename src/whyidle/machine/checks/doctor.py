"""Checks this machine: what can be measured, what cannot, and how to close each gap."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from whyidle import catalog
from whyidle.machine.checks import gpu_checks, host_checks
from whyidle.model.live.telemetry import Absent, Source, Target, split_key
from whyidle.model.machine import Check, Machine, State, Topic
from whyidle.record.monitor import live_sources
from whyidle.version import __version__

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
    return [check for name, source in wanted.items() for check in _checks(name, source, target)]


def _of_gpus(source: Source) -> bool:
    return all(meter.subject.startswith("gpu") for meter in source.SIGNALS)


def _checks(name: str, source: Source, target: Target) -> list[Check]:
    topic: Topic = "gpu" if _of_gpus(source) else "host"
    availability = source.probe(target)
    title = f"telemetry of {name}"
    if isinstance(availability, Absent):
        check = Check(
            topic=topic,
            name=title,
            state="gap",
            found=availability.reason,
            means="whyidle run does not record it",
            close=availability.how,
        )
        return [check]
    reasons: dict[Absent, list[str]] = {}
    for key, why in availability.missing.items():
        reasons.setdefault(why, []).append(split_key(key)[0])
    gone = {signal for signals in reasons.values() for signal in signals}
    offered = len(source.SIGNALS)
    found = f"{offered - len(gone)} of {offered} signals, every {source.PERIOD_S:g} s"
    return [
        Check(topic=topic, name=title, state="ok", found=found),
        *(_signal_gap(topic, why, signals) for why, signals in reasons.items()),
    ]


def _signal_gap(topic: Topic, why: Absent, signals: list[str]) -> Check:
    names = list(dict.fromkeys(signals))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return Check(
        topic=topic,
        name="not read",
        state="gap" if why.how else "note",
        found=f"{', '.join(names[:_NAMED])}{more}: {why.reason}",
        means="checks that need them are skipped" if why.how else "",
        close=why.how,
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


def _check(name: str, state: State, found: str, means: str = "", close: str = "") -> Check:
    return Check(topic="software", name=name, state=state, found=found, means=means, close=close)


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


def examine_machine(
    *, root: Path = Path("/"), environ: Mapping[str, str], folder: Path, store: Path
) -> Machine:
    """Run all checks, in the order of the report. Changes nothing; imports plug-ins, but no
    frameworks. ``root`` is where the file system begins, ``folder`` the working folder, whose
    storage is checked, ``store`` the folder of stored runs."""
    gpus = gpu_checks.check_gpus(root)
    found = any(check.name == "GPU" and check.state == "ok" for check in gpus)
    return Machine(
        checks=[
            *check_software(gpu=found),
            *gpus,
            *host_checks.check_host(root, environ),
            *check_sources(root, environ, gpu=found),
            *host_checks.check_storage(root, folder, store),
        ]
    )
