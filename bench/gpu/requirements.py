"""What the proof needs of the Python that runs it: PyTorch and whyidle's core dependencies."""

from __future__ import annotations

import re
import sys
from importlib import metadata, util

from bench.gpu.target import ROOT

LEAST_TORCH = {"cuda": (2, 4), "emulated": (2, 9)}
NAME = re.compile(r'^\s*"([A-Za-z0-9_-]+)[^";]*(?:;\s*python_version < \'3\.(\d+)\')?"', re.M)


def core_dependencies() -> list[str]:
    """Names of the packages that whyidle itself needs, from pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = text.partition("\ndependencies = [")[2].partition("]")[0]
    return [
        name
        for name, before in NAME.findall(listed)
        if not before or sys.version_info < (3, int(before))
    ]


def describe_missing(kind: str) -> str:
    """What to install for a target of this kind; empty where nothing is missing."""
    needed = [*core_dependencies(), "torch"]
    missing = [name for name in needed if util.find_spec(name) is None]
    if missing:
        names = " ".join(missing)
        return (
            f"{sys.executable} lacks {', '.join(missing)}. "
            f"Install them: {sys.executable} -m pip install {names}"
        )
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""  # built without metadata: its own errors are to say it
    least = LEAST_TORCH[kind]
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < least:
        wanted = ".".join(map(str, least))
        purpose = "the emulated device" if kind == "emulated" else "the proof"
        return f"{purpose} needs PyTorch {wanted} or later; {sys.executable} has {version}"
    return ""
