"""Checks of Python, frameworks and extras by their metadata, and of plug-ins by importing them."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from whyidle import catalog
from whyidle.model.machine import Check, State
from whyidle.version import __version__

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
