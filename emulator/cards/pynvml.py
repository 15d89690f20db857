"""In the place of NVML's binding: cards that a file describes, for processes of their own.

With this folder and the repository on ``PYTHONPATH``, ``WHYIDLE_CARDS`` names a JSON file: a list
of ``{"uuid", "memory": [used, total], "busy", "power_w", "processes": {pid: bytes}}``. The file is
read again at every question about use, so a test may change it while somebody watches.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from emulator import fake_nvml

_FILE = Path(os.environ["WHYIDLE_CARDS"])


def _describe_cards() -> list[dict[str, Any]]:
    cards: list[dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return cards


class _Live(dict[str, Any]):
    """Answers of one card, read when they are asked for."""

    def __init__(self, index: int, answers: dict[str, Any]) -> None:
        super().__init__(answers)
        self._index = index

    def get(self, name: str, default: Any = None) -> Any:
        card = _describe_cards()[self._index]
        if name == "UtilizationRates":
            return SimpleNamespace(gpu=round(100 * card["busy"]), memory=0)
        if name == "PowerUsage":
            return int(1000 * card["power_w"])
        if name == "ComputeRunningProcesses":
            held = card.get("processes", {}).items()
            return [SimpleNamespace(pid=int(pid), usedGpuMemory=size) for pid, size in held]
        if name == "ProcessUtilization":
            return fake_nvml.Fails(fake_nvml.NOT_FOUND)
        return super().get(name, default)


class _LiveGpu(fake_nvml.FakeGpu):
    """A card whose memory is read when it is asked for."""

    answers: _Live

    def __getattribute__(self, name: str) -> Any:
        if name == "memory":
            return tuple(_describe_cards()[self.answers._index]["memory"])
        return super().__getattribute__(name)


def _make_card(index: int, card: dict[str, Any]) -> fake_nvml.FakeGpu:
    plain = fake_nvml.training(gpm=None)
    answers = _Live(index, {**plain.answers, "CurrentClocksEventReasons": 0})
    fields = {one.name: getattr(plain, one.name) for one in dataclasses.fields(plain)}
    return _LiveGpu(**{**fields, "uuid": card["uuid"], "answers": answers})


_module = fake_nvml.module([_make_card(i, card) for i, card in enumerate(_describe_cards())])
globals().update({name: value for name, value in vars(_module).items() if name[:2] != "__"})
