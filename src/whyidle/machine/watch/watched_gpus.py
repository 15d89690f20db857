"""The GPUs of a machine, from all sources that read some."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from whyidle import catalog
from whyidle.errors import WhyidleError
from whyidle.machine.watch.gpu_history import GpuHistory
from whyidle.model.documents.watch_document import AbsentGpus, GpuState, Reason, WatchedGpu
from whyidle.model.live.telemetry import (
    Absent,
    Reader,
    Reading,
    Source,
    Target,
    clock_reasons,
    split_key,
)

_SUBJECT = re.compile(r"gpu\d+(\.mig\d+)?")


@dataclass(slots=True)
class _Card:
    history: GpuHistory = field(default_factory=GpuHistory)
    holders: dict[int, int | None] = field(default_factory=dict)  # pid -> bytes


class WatchedGpus:
    """Reads every GPU and MIG slice, and remembers the last minute of each."""

    def __init__(self, root: Path = Path("/"), sources: Mapping[str, Source] | None = None) -> None:
        self._root, self._given = root, sources
        self._readers: dict[str, Reader] = {}
        self._retry_s = 0.0
        self.cards: dict[str, _Card] = {}
        self.facts: dict[str, str] = {}
        self.absent: AbsentGpus | None = None

    def look(self, when_s: float) -> None:
        """Read every GPU now."""
        if when_s >= self._retry_s:
            # a driver may be installed or restarted meanwhile
            self._retry_s = when_s + 60.0
            self._open_sources()
        for name, reader in list(self._readers.items()):
            try:
                reading = reader.read()
            except WhyidleError as error:
                self._readers.pop(name).close()
                self.absent = AbsentGpus(reason=error.why or error.what, how=error.hint)
                continue
            self.facts.update(reader.facts)
            self._sort_reading(when_s, reading)
        for key in self.facts:
            if key.startswith("lost@"):
                self.cards.setdefault(split_key(key)[1], _Card())

    def _open_sources(self) -> None:
        absences: list[Absent] = []
        for name, source in _gpu_sources(self._given).items():
            if name in self._readers:
                continue
            target = Target(environ=os.environ, root=self._root, whole_machine=True)
            try:
                self._readers[name] = source.open(target)
            except WhyidleError as error:
                absences.append(Absent((error.why or error.what).rstrip("."), error.hint))
        self.absent = None
        if not self._readers:
            first = absences[0] if absences else Absent("no source of GPUs is installed")
            self.absent = AbsentGpus(reason=first.reason, how=first.how)

    def _sort_reading(self, when_s: float, reading: Reading) -> None:
        values: dict[str, Reading] = {}
        holders: dict[str, dict[int, int | None]] = {}
        for key, value in reading.items():
            signal, subject = split_key(key)
            card, dot, pid = subject.rpartition(".pid")
            if dot and signal == "process_memory_bytes":
                holders.setdefault(card, {})[int(pid)] = None if value is None else int(value)
            elif _SUBJECT.fullmatch(subject):
                values.setdefault(subject, {})[signal] = value
        for subject, one in values.items():
            card_seen = self.cards.setdefault(subject, _Card())
            if one.get("busy_ratio") is None and one.get("sm_active_ratio") is not None:
                one["busy_ratio"] = one["sm_active_ratio"]  # NVML has no utilization of slices
            card_seen.history.add_reading(when_s, one)
            card_seen.holders = holders.get(subject, {})

    def is_lost(self, subject: str) -> bool:
        """Whether a GPU answers no more."""
        return f"lost@{subject}" in self.facts or self.cards[subject].history.is_silent

    def name_of(self, subject: str) -> str:
        """The UUID of a GPU, or its place where it has none."""
        return self.facts.get(f"uuid@{subject}", subject)

    def describe(
        self, subject: str, state: GpuState, since_s: float, jobs: list[str], reason: Reason | None
    ) -> WatchedGpu:
        """A GPU's part of the document."""
        now, facts = self.cards[subject].history.latest, self.facts
        bits = now.get("clock_reasons")
        held = {
            name: float(value)
            for name, signal in (("power", "held_by_power_s"), ("heat", "held_by_heat_s"))
            if (value := now.get(signal)) is not None
        }
        return WatchedGpu(
            gpu=subject,
            uuid=facts.get(f"uuid@{subject}"),
            name=facts.get(f"name@{subject}"),
            card=facts.get(f"card_uuid@{subject}"),
            pci=facts.get(f"pci@{subject}"),
            state=state,
            since_s=since_s,
            busy=now.get("busy_ratio"),
            sm_active=now.get("sm_active_ratio"),
            tensor_active=now.get("tensor_active_ratio"),
            dram_active=now.get("dram_active_ratio"),
            memory_used_bytes=_whole(now.get("memory_used_bytes")),
            memory_bytes=_whole(now.get("memory_total_bytes")),
            power_w=now.get("power_w"),
            power_limit_w=now.get("power_limit_w"),
            energy_j=now.get("energy_j"),
            temperature_c=now.get("temperature_c"),
            clock_reasons=None if bits is None else list(clock_reasons(int(bits))),
            held_back_s=held,
            xid_events=_whole(now.get("xid_events")),
            xid_last=_whole(now.get("xid_last")),
            jobs=jobs,
            reason=reason,
        )

    def close(self) -> None:
        """Close every source."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()


def _gpu_sources(given: Mapping[str, Source] | None) -> dict[str, Source]:
    sources = dict(given) if given is not None else catalog.load_sources()
    return {
        name: source
        for name, source in sources.items()
        if all(meter.subject.startswith("gpu") for meter in source.SIGNALS)
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


class StateClock:
    """Remembers since when something has been in its state."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}

    def since_s(self, key: str, state: str) -> float:
        """How long ``key`` has been in ``state``, from the first look that saw it so."""
        now = time.monotonic()
        if self._since.get(key, ("", 0.0))[0] != state:
            self._since[key] = (state, now)
        return now - self._since[key][1]

    def forget_others(self, keys: set[str]) -> None:
        """Forget what is gone."""
        for key in self._since.keys() - keys:
            del self._since[key]
