"""Logs of ``nvidia-smi --query-gpu=... --format=csv -l``, and similar CSV files. Text before a
header (nvidia-smi's table) is skipped, a header may recur, runs of NUL bytes are dropped, and a row
with another number of fields than the header counts as lost. Without a ``timestamp`` column rows
are assumed to be ``ASSUMED_S`` apart, which the facts state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Final

from whyidle.machine.sources._gpu_signals import parse_number, parse_percent
from whyidle.model.live.telemetry import Reading, Value

ASSUMED_S: Final = 1.0
_MIB: Final = float(1 << 20)
_COLUMNS: Final[dict[str, tuple[str, float]]] = {
    "utilization.gpu": ("busy_ratio", 0.01),
    "utilization.memory": ("memory_busy_ratio", 0.01),
    "memory.used": ("memory_used_bytes", _MIB),
    "memory.total": ("memory_total_bytes", _MIB),
    "temperature.gpu": ("temperature_c", 1),
    "temperature": ("temperature_c", 1),
    "temperature.memory": ("temperature_memory_c", 1),
    "power.draw": ("power_w", 1),
    "power.draw.average": ("power_w", 1),
    "power": ("power_w", 1),
    "power.limit": ("power_limit_w", 1),
    "enforced.power.limit": ("power_limit_w", 1),
    "power.default_limit": ("power_limit_default_w", 1),
    "clocks.sm": ("clock_sm_mhz", 1),
    "clocks.current.sm": ("clock_sm_mhz", 1),
    "clocks.mem": ("clock_memory_mhz", 1),
    "clocks.current.memory": ("clock_memory_mhz", 1),
    "clocks.max.sm": ("clock_sm_max_mhz", 1),
    "clocks.max.memory": ("clock_memory_max_mhz", 1),
    "clocks_event_reasons.active": ("clock_reasons", 1),
    "clocks_throttle_reasons.active": ("clock_reasons", 1),
    "pcie.link.gen.current": ("pcie_generation", 1),
    "pcie.link.gen.gpucurrent": ("pcie_generation", 1),
    "pcie.link.gen.max": ("pcie_generation_max", 1),
    "pcie.link.width.current": ("pcie_lanes", 1),
    "pcie.link.width.max": ("pcie_lanes_max", 1),
    "ecc.errors.corrected.volatile.total": ("memory_errors_corrected", 1),
    "ecc.errors.uncorrected.volatile.total": ("memory_errors_uncorrected", 1),
}
_FACTS: Final = {"name": "name", "gpu_name": "name", "uuid": "uuid", "gpu_uuid": "uuid"}
_INDEX: Final = ("index", "gpu_index", "gpu")
_UNIT: Final = re.compile(r"\s*\[[^\]]*\]$|_(?:percent|w|c|mib|mhz)$", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]+|\d+(?:\.\d+)?)(?=\s|%|$)", re.IGNORECASE)
_SMI_DATE: Final = re.compile(r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}")


def is_header(line: str) -> bool:
    """Return whether a line names at least two columns of a GPU log, one of them measured."""
    names = _column_names(line)
    known = [name for name in names if name in _COLUMNS]
    return bool(known) and len(known) + sum(name in _INDEX or name in _FACTS for name in names) > 1


def _column_names(line: str) -> list[str]:
    """``utilization.gpu [%]`` and ``utilization_gpu_percent`` are the same column."""
    words = (_UNIT.sub("", word.strip().lower()) for word in line.split(","))
    return [word.replace("utilization_", "utilization.") for word in words]


class SmiLog:
    """Reads a log's lines, one row for each GPU. ``unix_ns`` is the Unix time of the first row, if
    known, and ``lost`` the number of unreadable rows."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.unix_ns: int | None = None
        self.lost = 0
        self._names: list[str] = []
        self._began: datetime | None = None

    def read_rows(self, lines: Iterable[bytes]) -> Iterator[tuple[int, Reading]]:
        """Yield the rows of each moment together: nanoseconds since the first, and values."""
        moment, into, clock = "", Reading(), 0
        for stamp, gpu, values in self._parse_lines(lines):
            again = any(f"{name}@{gpu}" in into for name in values)
            if into and (again or stamp != moment):
                yield clock, into
                into, clock = {}, self._clock_ns(stamp, clock)
            elif not into:
                clock = self._clock_ns(stamp, clock)
            moment = stamp
            into.update({f"{name}@{gpu}": value for name, value in values.items()})
        if into:
            yield clock, into

    def _clock_ns(self, stamp: str, before: int) -> int:
        when = _parse_timestamp(stamp)
        if when is None:
            self.facts.setdefault("times", f"assumed: {ASSUMED_S:g} s apart")
            began = self._began is None
            self._began = self._began or datetime.fromtimestamp(0, timezone.utc)
            return before if began else before + int(ASSUMED_S * 1e9)
        if self._began is None:
            self._began = when
            self.unix_ns = int(when.timestamp() * 1e3) * 1_000_000
        return max(before, round((when - self._began).total_seconds() * 1e9))

    def _parse_lines(self, lines: Iterable[bytes]) -> Iterator[tuple[str, str, Reading]]:
        for line in lines:
            words = line.replace(b"\x00", b"").decode("utf-8", "replace").strip()
            if not words:
                continue
            if is_header(words):
                self._names = _column_names(words)
            elif self._names:
                row = self._parse_row([word.strip() for word in words.split(",")])
                if row is None:
                    self.lost += 1
                else:
                    yield row
            elif self.unix_ns is None and _SMI_DATE.match(words):
                self.facts["made"] = words  # the table's date; its time zone is unknown

    def _parse_row(self, words: list[str]) -> tuple[str, str, Reading] | None:
        if len(words) != len(self._names):
            return None
        fields = dict(zip(self._names, words, strict=True))
        index = next((fields[name] for name in _INDEX if name in fields), "0")
        if not index.isdigit():
            return None
        gpu = f"gpu{index}"
        for column, fact in _FACTS.items():
            if column in fields:
                self.facts[f"{fact}@{gpu}"] = fields[column]
        values: Reading = {
            _COLUMNS[name][0]: _parse_value(word, *_COLUMNS[name])
            for name, word in fields.items()
            if name in _COLUMNS
        }
        return fields.get("timestamp", ""), gpu, values


def _parse_value(word: str, signal: str, scale: float) -> Value:
    """``97 %``, ``4142 MiB``, ``0x0000000000000004``, ``[N/A]``, ``[Not Supported]``, ``ERR!``."""
    match = _NUMBER.match(word)
    if not match:
        return None
    if match[0][:2] in ("0x", "0X"):
        return parse_number(int(match[0], 16), wide=True)
    value = float(match[0])
    if signal.endswith("_ratio"):
        return parse_percent(value)
    number = parse_number(value, scale, wide=signal.endswith("_bytes"))
    return int(number) if number is not None and number == int(number) else number


def _parse_timestamp(stamp: str) -> datetime | None:
    """nvidia-smi writes ``2025/09/24 02:57:03.946`` in local time; others ISO 8601."""
    words = stamp.replace("/", "-").removesuffix("Z")
    try:
        when = datetime.fromisoformat(words) if words else None
    except ValueError:
        return None
    if when is None or when.tzinfo is not None:
        return when
    return when.replace(tzinfo=timezone.utc)
