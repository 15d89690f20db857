"""What a person would type to start a job, and the environment that it gets."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec

from clinic.card import Measure, Mode, Options
from emulator.environment import add_emulator

NAME = "train.py"
"""every script's name, where it runs"""
DEVICES: dict[Mode, str] = {"cpu": "cpu", "emulated": "emulated", "gpu": "cuda", "recorded": "cpu"}
QUIET = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""set for every job, where the card says nothing else: two cores are shared with loader workers"""
NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow, Keras", "jax": "JAX"}
DROPPED = ("WHYIDLE_HOME", "WHYIDLE_DISABLE", "WHYIDLE_RUN", "MKL_NUM_THREADS")


def command(options: Options, mode: Mode, seconds: float, measure: Measure) -> list[str]:
    """What a person would type."""
    words = []
    if "@cores" in options:
        words += ["taskset", "-c", ",".join(map(str, sorted(_cores(int(options["@cores"])))))]
    words += [interpreter(options)]
    if "@ranks" in options:
        words += ["-m", "torch.distributed.run", "--standalone"]
        words += ["--nproc-per-node", str(options["@ranks"])]
    words += [NAME]
    asked: Options = {} if measure == "whole" else {"seconds": seconds}
    if mode != "cpu":
        asked["device"] = DEVICES[mode]
    for name, value in {**asked, **options}.items():
        if name[0] in "$@%" or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words


def interpreter(options: Options) -> str:
    """Which Python starts the job: for another framework than PyTorch the one that a variable
    names, as ``WHYIDLE_PYTHON_JAX``, else ours."""
    framework = str(options.get("@python", ""))
    return os.environ.get(f"WHYIDLE_PYTHON_{framework.upper()}", sys.executable)


def framework(options: Options) -> str:
    """The framework of a job, as a row of the page names it."""
    backend = NAMES.get(str(options.get("$KERAS_BACKEND", "")), "")
    return f"Keras on {backend}" if backend else NAMES[str(options.get("@python", "torch"))]


@cache
def has_framework(python: str, framework: str) -> bool:
    """Whether an interpreter has a framework."""
    code = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({framework!r}))"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def _cores(count: int) -> list[int]:
    return sorted(os.sched_getaffinity(0))[:count]


def environment(options: Options) -> dict[str, str]:
    """Ours, with what the card sets, and the product and the emulated device importable from any
    folder."""
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    path = [str(Path(entry).absolute()) for entry in kept.get("PYTHONPATH", "").split(":") if entry]
    kept["PYTHONPATH"] = os.pathsep.join(path)
    own = {name[1:]: str(value) for name, value in options.items() if name[0] == "$"}
    device = {name[1:]: value for name, value in options.items() if name[0] == "%"}
    if device:
        own["WHYIDLE_EMULATED"] = msgspec.json.encode(
            {name: _parsed(value) for name, value in device.items()}
        ).decode()
    return add_emulator({**kept, **QUIET, **own})


def _parsed(value: object) -> object:
    """Lists of the emulated device's settings stand in cards as JSON."""
    return msgspec.json.decode(value) if isinstance(value, str) and value[:1] == "[" else value
