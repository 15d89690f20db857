"""Python, frameworks and our own extras, by their metadata; plug-ins, which are imported."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from whyidle import catalog
from whyidle.model.machine import Check
from whyidle.version import __version__

FRAMEWORKS = (
    *("torch", "lightning", "pytorch-lightning", "transformers", "accelerate", "deepspeed"),
    *("tensorflow", "keras", "jax", "flax"),
)


def check_software(*, gpu: bool) -> list[Check]:
    """What is installed beside us."""
    return [_check_python(), *_check_frameworks(gpu=gpu), _check_nvml(gpu=gpu), *_plugins()]


def _check_python() -> Check:
    found = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    return Check(
        topic="software", name="Python", state="ok", found=f"{found}, whyidle {__version__}"
    )


def _check_frameworks(*, gpu: bool) -> list[Check]:
    present = {name: v for name in FRAMEWORKS if (v := installed_version(name))}
    if not present:
        return [
            Check(
                topic="software",
                name="frameworks",
                state="absent",
                found="none in this environment",
                means="explaining recordings needs none; recording does",
                close="install whyidle in the environment of your training job",
            )
        ]
    listed = ", ".join(f"{name} {number}" for name, number in present.items())
    check = Check(topic="software", name="frameworks", state="ok", found=listed)
    if gpu and present.get("torch", "").endswith("+cpu"):
        return [
            check,
            Check(
                topic="software",
                name="torch build",
                state="gap",
                found="a build for the CPU only, beside a GPU",
                means="training would not use the GPU",
                close="install the build for your driver: pytorch.org/get-started",
            ),
        ]
    return [check]


def _check_nvml(*, gpu: bool) -> Check:
    number = installed_version("nvidia-ml-py")
    if number:
        return Check(topic="software", name="NVML binding", state="ok", found=number)
    return Check(
        topic="software",
        name="NVML binding",
        state="gap" if gpu else "absent",
        found="nvidia-ml-py is not installed",
        means="no utilisation, power, clocks and throttling while a job runs",
        close="pip install 'whyidle[nvidia]'",
    )


def _plugins() -> list[Check]:
    """The plug-ins of other packages, with a gap for each that cannot be loaded."""
    examined = catalog.examine_plugins()
    good = ", ".join(name for name, error in examined.items() if error is None)
    checks = [Check(topic="software", name="plug-ins", state="ok", found=good)] if good else []
    for name, error in examined.items():
        if error is not None:
            why, close = error.why.rstrip("."), error.hint.rstrip(".")
            checks.append(
                Check(
                    topic="software",
                    name=name,
                    state="gap",
                    found=f"{error.what} {why}",
                    close=close,
                )
            )
    return checks


def installed_version(package: str) -> str | None:
    """A package's version, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
