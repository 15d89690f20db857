"""The counters of emulated accelerators, in the words of NVML and GPM: a source of telemetry that
whyidle loads where ``WHYIDLE_SOURCES`` names it.

``WHYIDLE_EMULATED_COUNTERS`` names a folder in which every process that uses such a device keeps
what a driver would show of it (docs/emulated.md); one that is not absolute lies in the recording,
which trials leave writable. Values are computed from the device's true busy
intervals. A read costs 0.1 ms for a process, reading one small file.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from whyidle.errors import InputError
from whyidle.machine.sources import _gpu_signals
from whyidle.model.live.telemetry import Absent, Available, Meter, Reader, Reading, Target

VARIABLE = "WHYIDLE_EMULATED_COUNTERS"
SCHEMA = "whyidle/emulated-counters/1"
STALE_NS = 2_000_000_000
"""a process that has not written for so long is gone, or stopped"""

_RATIOS = {
    "busy_ns": "busy_ratio",
    "active_ns": "sm_active_ratio",
    "tensor_ns": "tensor_active_ratio",
    "memory_ns": "dram_active_ratio",
}
_RATES = {"sent_bytes": "pcie_sent_bytes_per_s", "received_bytes": "pcie_received_bytes_per_s"}
_GAUGES = {
    "memory_total_bytes": "memory_total_bytes",
    "clock_sm_mhz": "clock_sm_mhz",
    "clock_sm_max_mhz": "clock_sm_max_mhz",
    "clock_reasons": "clock_reasons",
    "power_w": "power_w",
    "power_limit_w": "power_limit_w",
    "power_limit_default_w": "power_limit_default_w",
    "link_width": "pcie_lanes",
    "link_width_max": "pcie_lanes_max",
}
_OTHERS = ("energy_j", "memory_used_bytes", "processes", "process_memory_bytes")
_GIVEN = {*_RATIOS.values(), *_RATES.values(), *_GAUGES.values(), *_OTHERS}

SIGNALS: tuple[Meter, ...] = tuple(meter for meter in _gpu_signals.METERS if meter.id in _GIVEN)
PERIOD_S = 0.25
LIVE = VARIABLE in os.environ
"""elsewhere nobody is to hear of it"""


class _Emulated:
    """The devices of all processes of a folder. Processes that share a device add up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: dict[tuple[int, int], tuple[int, dict[str, Any]]] = {}
        self._energy: dict[str, float] = {}
        self.facts: dict[str, str] = {}
        self.missing: dict[str, Absent] = {}

    def read(self) -> Reading:
        """Every value of every device now; a ratio or rate is since the last read."""
        into: Reading = {}
        for told in _told(self._folder):
            for each in told["devices"]:
                self._device(into, int(told["pid"]), int(told["clock_ns"]), each)
            self._unused(into, int(told.get("count", 0)), told["devices"])
        return into

    def _device(self, into: Reading, pid: int, clock_ns: int, each: dict[str, Any]) -> None:
        index = int(each["index"])
        subject = f"gpu{index}"
        self.facts[f"name@{subject}"] = str(each["name"])
        self.facts[f"cuda_ordinal@{subject}"] = str(index)
        for name, signal in _GAUGES.items():
            into[f"{signal}@{subject}"] = _gpu_signals.parse_number(each.get(name))
        used = _gpu_signals.parse_number(each["memory_used_bytes"], wide=True)
        if used:
            into[f"process_memory_bytes@{subject}.pid{pid}"] = used
            _add(into, f"processes@{subject}", 1)
        _add(into, f"memory_used_bytes@{subject}", used or 0)
        before = self._last.get((pid, index))
        if before is not None and clock_ns > before[0]:
            self._since(into, subject, clock_ns - before[0], each, before[1])
        if before is None or clock_ns > before[0]:
            self._last[pid, index] = (clock_ns, each)
        into[f"energy_j@{subject}"] = self._energy.get(subject, 0.0)

    def _since(
        self, into: Reading, subject: str, ns: int, each: dict[str, Any], before: dict[str, Any]
    ) -> None:
        for name, signal in _RATIOS.items():
            share = max(0.0, (each[name] - before[name]) / ns)
            into[f"{signal}@{subject}"] = min(1.0, (into.get(f"{signal}@{subject}") or 0.0) + share)
        for name, signal in _RATES.items():
            _add(into, f"{signal}@{subject}", max(0.0, (each[name] - before[name]) / ns * 1e9))
        grown = max(0.0, each["energy_j"] - before["energy_j"])
        self._energy[subject] = self._energy.get(subject, 0.0) + grown

    def _unused(self, into: Reading, count: int, used: list[dict[str, Any]]) -> None:
        """Devices that no process has touched stand idle, and are seen all the same."""
        for index in range(count):
            subject = f"gpu{index}"
            if used and f"memory_used_bytes@{subject}" not in into:
                self.facts[f"name@{subject}"] = str(used[0]["name"])
                self.facts[f"cuda_ordinal@{subject}"] = str(index)
                into[f"busy_ratio@{subject}"] = 0.0
                into[f"processes@{subject}"] = 0
                into[f"memory_used_bytes@{subject}"] = 0
                into[f"memory_total_bytes@{subject}"] = used[0]["memory_total_bytes"]

    def close(self) -> None:
        """Nothing is open between reads."""


def _add(into: Reading, key: str, value: int | float) -> None:
    into[key] = (into.get(key) or 0) + value


def _told(folder: Path) -> list[dict[str, Any]]:
    """What each living process shows."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # it ended meanwhile
        fresh = told.get("schema") == SCHEMA
        if fresh and time.perf_counter_ns() - int(told["clock_ns"]) < STALE_NS:
            found.append(told)
    return found


def probe(target: Target = Target()) -> Available | Absent:  # noqa: B008  # frozen
    """Whether a folder is named."""
    if not target.environ.get(VARIABLE):
        return Absent("no emulated accelerator", "")
    return Available()


def open(target: Target) -> Reader:  # noqa: A001  # a source's verb
    """Read what the job's processes will show.

    Raises:
        InputError: no folder is named.
    """
    told = probe(target)
    if isinstance(told, Absent):
        raise InputError("Emulated accelerators cannot be read.", why=f"{told.reason}.")
    return _Emulated(Path(target.environ.get("WHYIDLE_RUN", ""), target.environ[VARIABLE]))
