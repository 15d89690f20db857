"""Stages, their items and their results, which survive a runner that is killed."""

from __future__ import annotations

import importlib
import json
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.gpu.target import Target

NAMES = (
    "doctor",
    "truth",
    "attribution",
    "overhead",
    "heal",
    "cases",
    "emulator",
    "telemetry",
    "harm",
)
"""in the order in which they run"""
SCHEMA = "whyidle/gpu-results/1"
RESULTS = "results.json"
"""one file, as some machines give back few"""


class SkippedError(Exception):
    """An item cannot run here; the text says why."""


@dataclass(frozen=True)
class Item:
    """A part of a stage whose result is written as soon as it is known."""

    name: str
    run: Callable[[], dict[str, Any]]
    """makes the result; values are JSON"""
    cost_s: float
    """seconds it is expected to take, by which ``--left`` decides whether it is begun"""


@dataclass(frozen=True)
class Stage:
    """One question to the machine."""

    name: str
    title: str
    items: Callable[[Target], list[Item]]
    table: Callable[[dict[str, dict[str, Any]]], Iterator[str]]
    """lines of Markdown for the results of its items that succeeded, by name"""


def load_stage(name: str) -> Stage:
    """A stage by its name."""
    stage: Stage = importlib.import_module(f"bench.gpu.stages.{name}").STAGE
    return stage


def read_results(folder: Path) -> dict[str, Any]:
    """All results in a folder, of the device that is named in them; empty where there are none."""
    try:
        stored: dict[str, Any] = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if stored.get("schema") == SCHEMA else {}


@dataclass
class StageResult:
    """What is known of a stage, as the file of the results holds it."""

    stage: str
    device: str
    emulated: bool
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    """name -> ``{"status": done | skipped | failed, "seconds": ..., "expected_s": ..., "reason" or
    "result": ...}``"""
    short: bool = False
    """whether a short rehearsal made them: they stand for no whole one"""

    @classmethod
    def load(cls, name: str, target: Target, folder: Path) -> StageResult:
        """What an earlier run on the same device, as short as this, wrote; empty without one."""
        fresh = cls(name, target.name, target.emulated, short=target.short)
        return replace(fresh, items=fresh._read_same(folder).get("stages", {}).get(name, {}))

    @property
    def _head(self) -> dict[str, Any]:
        """What results have in common that may stand in one file."""
        target = {"device": self.device, "emulated": self.emulated, "short": self.short}
        return {"schema": SCHEMA, **target}

    def _read_same(self, folder: Path) -> dict[str, Any]:
        stored = read_results(folder)
        return stored if all(stored.get(key) == value for key, value in self._head.items()) else {}

    def store(self, folder: Path) -> None:
        """Replace the file, whole or not at all; results of another device, or of a short rehearsal
        where this is a whole one, are dropped."""
        folder.mkdir(parents=True, exist_ok=True)
        stages = self._read_same(folder).get("stages", {}) | {self.stage: self.items}
        draft = folder / f"{RESULTS}.tmp"
        draft.write_text(
            json.dumps({**self._head, "stages": stages}, indent=1) + "\n", encoding="utf-8"
        )
        draft.replace(folder / RESULTS)

    def finished(self, item: str) -> bool:
        """Whether an item needs no second run: it is done, or cannot run on this machine."""
        return self.items.get(item, {}).get("status") in {"done", "skipped"}


def run_stage(
    stage: Stage,
    target: Target,
    folder: Path,
    *,
    seconds_left: Callable[[], float],
    report: Callable[[str], None],
    only: str | None = None,
) -> StageResult:
    """Run the items that have no result yet; an item that fails does not end the others."""
    result = StageResult.load(stage.name, target, folder)
    for item in stage.items(target):
        if only not in {None, item.name}:
            continue
        if result.finished(item.name):
            report(f"{stage.name}/{item.name}: known from before")
            continue
        if item.cost_s > seconds_left():
            report(f"{stage.name}/{item.name}: not begun, needs about {item.cost_s:.0f} s")
            continue
        begin = time.monotonic()
        outcome = _run_item(item)
        outcome["seconds"] = round(time.monotonic() - begin, 1)
        outcome["expected_s"] = round(item.cost_s, 1)
        result.items[item.name] = outcome
        result.store(folder)
        report(f"{stage.name}/{item.name}: {outcome['status']} in {outcome['seconds']} s"
               + (f" ({outcome['reason']})" if "reason" in outcome else ""))  # fmt: skip
    result.store(folder)
    return result


def _run_item(item: Item) -> dict[str, Any]:
    try:
        return {"status": "done", "result": item.run()}
    except SkippedError as reason:
        return {"status": "skipped", "reason": str(reason)}
    except Exception as error:  # an item that fails does not end the others
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return {"status": "failed", "reason": text}
