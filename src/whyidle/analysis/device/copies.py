"""Copies between host and device: size, rate, host memory kind, and the time that they hold up."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64, I64, Mask
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.diagnosis import Place

_LINKS: Final = (
    (r"\b(H100|H200|H800|H20|GH200|B100|B200|GB200|MI3\d\d|RTX 50\d\d)", 50.0),
    (r"\b(A100|A800|A10G?|A30|A40|RTX A\d{4}|L4|L40S?|RTX [34]0\d\d|MI[12]\d\d)\b", 24.0),
    (r"\b(V100|T4|P100|P40|P4|RTX 20\d\d|GTX 10\d\d|TITAN|Quadro RTX|MI[56]0)", 12.0),
)
"""rate of pinned copies over PCIe x16, GB/s, by the board's generation (5, 4, 3): about 80 % of 63,
31.5 and 15.75 GB/s"""
UNKNOWN_GBS = 12.0
MOST_FASTER, USUALLY_FASTER = 8.0, 2.0
"""pinned over pageable rate on one machine, at most and on the measured machine: the fastest of
these links over the usual 5 to 6 GB/s, and 11 to 12 GB/s (rapidsai/dask-cuda#98)"""
BIG_BYTES = 1_000_000
"""smaller copies measure latency, not bandwidth"""
COPY_S = 2e-6
CALL_S = 5e-6
"""least time of any copy on the device, and of its call on the host"""


def link_gbs(name: str | None) -> tuple[float, bool]:
    """Return the rate of pinned copies with a device, GB/s, and whether it is known."""
    for pattern, rate in _LINKS:
        if name and re.search(pattern, name, re.I):
            return rate, True
    return UNKNOWN_GBS, False


class Copies(Struct, frozen=True, eq=False):
    """Some copies in scope: device rows, sizes in bytes (0: not recorded), seconds each. Shares are
    of the step: ``exposed`` copies with no useful device work, ``calls`` device idle inside the
    host's copy calls, ``refill`` device idle because the host had waited for copies."""

    rows: I64
    sizes: F64
    seconds: F64
    exposed: float
    calls: float
    refill: float

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total_share(self) -> float:
        """Share of the step that they hold up."""
        return self.exposed + self.calls + self.refill

    def median_rate(self) -> float | None:
        """Return the median rate of the big copies, GB/s; None without one."""
        big = (self.sizes >= BIG_BYTES) & (self.seconds > 0)
        return float(np.median(self.sizes[big] / self.seconds[big]) / 1e9) if big.any() else None

    @property
    def overall_rate(self) -> float | None:
        """Rate of all together with their latencies, GB/s; None without any bytes."""
        took, size = float(self.seconds.sum()), float(self.sizes.sum())
        return size / took / 1e9 if took and size else None

    def at_rate(self, gbs: float) -> float:
        """Return the time of the same copies at another rate, s; never longer than recorded."""
        fastest = np.minimum(self.seconds, COPY_S + self.sizes / (gbs * 1e9))
        return float(fastest.sum())


def find_copies(facts: Facts, kind: str, direction: str = "h2d") -> Copies:
    """Return copies in scope by host memory: "pageable", "other" (pinned or unknown), "pinned" or
    "any". Copies that return results of CPU work are left out."""
    device, host = facts.device, facts.timeline.host
    rows = facts.device_rows
    copies = rows[facts.direction[rows] == direction]
    detours = np.concatenate([np.empty(0, np.int64), *facts.waits.cpu_fallbacks])
    copies = copies[~np.isin(facts.launches.call[copies], detours)]
    rows = copies[_of_kind(facts, copies, kind)]
    calls = facts.launches.call[rows]
    calls = calls[calls >= 0]
    inside = union_of(host.start[calls], host.end[calls])
    seconds = facts.durations_s(rows)
    total = float(facts.durations_s(copies).sum())
    return Copies(
        rows=rows,
        sizes=np.maximum(device.size[rows], 0).astype(np.float64),
        seconds=seconds,
        exposed=_exposed_share(facts, union_of(device.start[rows], device.end[rows]), "copy"),
        calls=_exposed_share(facts, inside, "copy_call"),
        refill=facts.bucket_share("copy_refill") * (float(seconds.sum()) / total if total else 0.0),
    )


def copy_place(facts: Facts, rows: I64) -> Place | None:
    """Return where the program requested the longest of some copies."""
    rows = rows[facts.launches.call[rows] >= 0]
    if not len(rows):
        return None
    row = int(rows[np.argmax(facts.durations_s(rows))])
    op = int(facts.launching_op[row])
    return facts.places.place_of(op if op >= 0 else int(facts.launches.call[row]))


def _exposed_share(facts: Facts, where: Intervals, reason: str) -> float:
    return facts.share_of(facts.time_of(reason) & where)


def _of_kind(facts: Facts, rows: I64, kind: str) -> Mask:
    names = [facts.timeline.names[i].lower() for i in facts.device.name[rows]]
    pageable = np.array(["pageable" in name for name in names], dtype=bool)
    pinned = np.array(["pinned" in name for name in names], dtype=bool)
    all_rows = np.ones(len(rows), dtype=bool)
    return {"pageable": pageable, "pinned": pinned, "other": ~pageable, "any": all_rows}[kind]


def pinned_gbs(facts: Facts, pageable: float | None = None) -> tuple[float, float, str]:
    """Return the rate that pinned copies would reach here, GB/s: (expected, at least, source), by
    pinned copies in the recording, else by the board's class. A slow host also slows ``pageable``
    copies (GB/s), so these limit it."""
    measured = find_copies(facts, "pinned").median_rate()
    if measured is not None:
        return measured, measured, "pinned copies of the same recording"
    rate, known = link_gbs(facts.timeline.info.name)
    source, careful = "class of the board" if known else "slowest common class", rate / 2
    if pageable is not None:
        careful = min(careful, pageable * USUALLY_FASTER)
        if pageable * MOST_FASTER < rate:
            rate = pageable * MOST_FASTER
            source = f"{MOST_FASTER:.0f} times the rate of the copies"
    return rate, careful, source
