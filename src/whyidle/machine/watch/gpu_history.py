"""The last minute of one GPU, from the readings of its source."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import fmean

from whyidle.model.live.telemetry import CLOCK_REASONS, Reading

WINDOW_S = 60.0
SLOWDOWN = sum(
    bit for bit, name in CLOCK_REASONS.items() if name.startswith("hardware") or "thermal" in name
)
_BUS = ("pcie_sent_bytes", "pcie_received_bytes")
_RATES = (*(f"{name}_per_s" for name in _BUS), "nvlink_sent_bytes_per_s")
_RATES += ("nvlink_received_bytes_per_s",)


class GpuHistory:
    """Readings of one GPU over the last ``WINDOW_S``, by the signal's name without subject."""

    def __init__(self) -> None:
        self._rows: deque[tuple[float, Reading]] = deque()
        self._last: Reading = {}

    def add_reading(self, when_s: float, values: Reading) -> None:
        """Add a look."""
        self._rows.append((when_s, values))
        while self._rows and self._rows[0][0] < when_s - WINDOW_S:
            self._rows.popleft()
        self._last.update({name: value for name, value in values.items() if value is not None})

    @property
    def latest(self) -> Reading:
        """The latest look, with the last known values of what changes rarely."""
        slow = {k: v for k, v in self._last.items() if k.endswith(("_limit_w", "_default_w"))}
        return {**slow, **(self._rows[-1][1] if self._rows else {})}

    @property
    def span_s(self) -> float:
        """Time between the first and the last look in the window."""
        return self._rows[-1][0] - self._rows[0][0] if self._rows else 0.0

    @property
    def is_silent(self) -> bool:
        """Whether the GPU gave some values and gives none any more: it fell off the bus."""
        latest = self._rows[-1][1] if self._rows else {}
        return bool(self._last) and bool(latest) and all(v is None for v in latest.values())

    def mean(self, signal: str) -> float | None:
        """The mean of a gauge over the window."""
        values = self._values(signal)
        return fmean(values) if values else None

    def highest(self, signal: str) -> float | None:
        """The highest value of a gauge in the window."""
        return max(self._values(signal), default=None)

    def growth_per_s(self, signal: str) -> float | None:
        """How fast a counter grew over the window; None with fewer than two looks."""
        rows = [(when, v) for when, row in self._rows if (v := row.get(signal)) is not None]
        if len(rows) < 2 or rows[-1][0] <= rows[0][0]:
            return None
        return max(0.0, rows[-1][1] - rows[0][1]) / (rows[-1][0] - rows[0][0])

    def bus_bytes_per_s(self) -> float | None:
        """Traffic over PCIe and NVLink in both directions; None if PCIe is not measured."""
        counted = [self.growth_per_s(name) for name in _BUS]
        if None not in counted:
            return sum(rate or 0.0 for rate in counted)
        rates = [self.mean(name) for name in _RATES]
        return None if rates[0] is None else sum(rate or 0.0 for rate in rates)

    def slowed_by_hardware(self) -> bool | None:
        """Whether every look has a reason of heat or hardware for its clocks."""
        reasons = self._values("clock_reasons")
        return all(int(bits) & SLOWDOWN for bits in reasons) if reasons else None

    def _values(self, signal: str) -> list[float]:
        return [value for _, row in self._rows if (value := row.get(signal)) is not None]


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of the known values."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
