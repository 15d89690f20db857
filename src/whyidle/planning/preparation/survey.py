"""Surveys a dataset before it is prepared: what of it is deterministic, how large it becomes, and
how much faster a sample is read than made."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from whyidle.errors import InputError, OutputError

PROBE = Path(__file__).parents[2] / "probe"
SURVEYED = 64
"""samples that are made twice, and from which size and time are predicted: one that differs in a
twentieth of all is met with 96 %"""
MANY = 20
"""opened files from which their common folder is the source, not each of them"""
_BOOT = """
import importlib.util, sys
path = sys.argv.pop()
spec = importlib.util.spec_from_file_location(
    "_whyidle_probe", path + "/__init__.py", submodule_search_locations=[path])
module = importlib.util.module_from_spec(spec)
sys.modules["_whyidle_probe"] = module
spec.loader.exec_module(module)
from _whyidle_probe.preparation import sample_maker
sample_maker.run_order()
"""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Survey:
    """What is to be written: samples with the first ``prefix`` of the ``transforms``, which are
    deterministic. ``gain`` is of the time of one sample."""

    samples: int
    prefix: int
    transforms: list[str]
    code: str
    imports: list[str]
    indices: list[int]
    digests: list[str]
    sizes: list[int]
    size: Forecast
    gain: Forecast
    whole_s: float  # to make a sample
    sources: list[str]

    @property
    def rest(self) -> list[str]:
        """The transforms that stay online."""
        return self.transforms[self.prefix :]

    @property
    def outgrows_memory(self) -> bool:
        """Whether the data is larger than the memory that is free now."""
        return self.size.value > float(psutil.virtual_memory().available)


class MakerProcess:
    """A process of the user's Python that makes samples."""

    def __init__(self, python: str, order: dict[str, Any]) -> None:
        read, write = os.pipe()
        words = [python, "-c", _BOOT, json.dumps({**order, "reply": write}), str(PROBE)]
        self._child = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=2, pass_fds=(write,), text=True
        )
        os.close(write)
        self.replies = os.fdopen(read, encoding="utf-8")

    def ask(self, line: dict[str, Any]) -> None:
        """Send a line of work."""
        assert self._child.stdin is not None
        print(json.dumps(line), file=self._child.stdin, flush=True)

    def read_reply(self) -> dict[str, Any]:
        """Wait for a result.

        Raises:
            InputError: the dataset fails, holds what cannot be written, or the process died.
        """
        line = self.replies.readline()
        found: dict[str, Any] = json.loads(line) if line else {"error": "its process died"}
        if "error" in found:
            if found.get("kind") == "disk":
                hint = "Free some space, then run it again: complete shards are kept."
                raise OutputError("The disk is full.", why=f"{found['error']}.", hint=hint)
            if found.get("kind") == "sample":
                hint = "Correct the dataset or its files, then run it again."
                raise InputError("A sample cannot be made.", why=found["error"], hint=hint)
            hint = "Name a function without arguments that returns the dataset: train.py:make_set"
            raise InputError("The dataset cannot be prepared.", why=found["error"], hint=hint)
        return found

    def end(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.communicate()
        self.replies.close()


def ask_once(python: str, order: dict[str, Any]) -> dict[str, Any]:
    """The single result of an order."""
    maker = MakerProcess(python, order)
    try:
        return maker.read_reply()
    finally:
        maker.end()


def survey_dataset(python: str, spec: str, sources: Sequence[str]) -> Survey:
    """Make samples in two fresh processes, with other seeds and in reverse order.

    Raises:
        InputError: samples differ even without transforms, or cannot be made.
    """
    order = {"mode": "survey", "spec": spec, "count": SURVEYED}
    makers = [
        MakerProcess(python, {**order, "seed": seed, "direction": direction})
        for seed, direction in ((1, 1), (2, -1))
    ]
    try:
        one, other = (maker.read_reply() for maker in makers)
    finally:
        for maker in makers:
            maker.end()
    if not one["samples"]:
        raise InputError("The dataset is empty.", why=f"{spec} has the length 0.")
    pairs = zip(one["prefixes"], other["prefixes"], strict=True)
    kept = next((a for a, b in pairs if a["digests"] == b["digests"]), None)
    if kept is None:
        bare = " even without its transforms" if one["transforms"] else ""
        raise InputError(
            "The samples are not deterministic: made twice in fresh processes, they differ.",
            why=f"{spec} differs{bare}.",
            hint="Move what is random out of the dataset, into a transform that stays online.",
        )
    count = one["samples"]
    size = _mean(kept["sizes"])
    rounds = [*kept["rounds"], *_same_prefix(other, kept)["rounds"]]
    return Survey(
        samples=count,
        prefix=kept["prefix"],
        transforms=one["transforms"],
        code=one["code"],
        imports=one["imports"],
        indices=one["indices"],
        digests=kept["digests"],
        sizes=kept["sizes"],
        size=Forecast(size.value * count, size.low * count, size.high * count),
        gain=measure_gain(rounds),
        whole_s=float(np.median([made_s for made_s, _ in rounds])),
        sources=list(sources) or find_sources(set(one["files"])),
    )


def _same_prefix(reply: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in reply["prefixes"] if p["prefix"] == kept["prefix"])
    return found


def measure_gain(rounds: Sequence[Sequence[float]]) -> Forecast:
    """How many times as fast samples are read as made: the median of rounds (seconds to make, and
    to read), with the tenth below and above which the others lie: other programs interrupt some."""
    ratios = [made_s / read_s for made_s, read_s in rounds]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9)).tolist()
    return Forecast(middle, low, high)


def _mean(values: Sequence[float]) -> Forecast:
    """The mean with two standard errors, and 2 % for what no sample shows."""
    mean = float(np.mean(values))
    half = 2.0 * float(np.std(values)) / max(len(values), 1) ** 0.5 + 0.02 * mean
    return Forecast(mean, mean - half, mean + half)


def find_sources(files: set[str]) -> list[str]:
    """Files that are the source, or the folder that holds all of many."""
    kept = sorted(path for path in files if Path(path).is_file())
    if len(kept) <= MANY:
        return kept
    common = os.path.commonpath(kept)
    return [common] if common != "/" else sorted({str(Path(path).parent) for path in kept})


def fingerprint_sources(sources: Sequence[str], apart: Path) -> str:
    """A hash of paths, sizes and times of all source files, but those below ``apart``."""
    digest = hashlib.sha256()
    for source in sources:
        paths = [Path(source)] if Path(source).is_file() else sorted(Path(source).rglob("*"))
        for path in paths:
            if path.is_relative_to(apart) or not path.is_file():
                continue
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
