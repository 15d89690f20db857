"""Copies between host and device: how much, how fast, from what memory, and what they hold up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.model.diagnosis import Place

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_LINKS: Final = (
    (r"\b(H100|H200|H800|H20|GH200|B100|B200|GB200|MI3\d\d|RTX 50\d\d)", 50.0),
    (r"\b(A100|A800|A10G?|A30|A40|RTX A\d{4}|L4|L40S?|RTX [34]0\d\d|MI[12]\d\d)\b", 24.0),
    (r"\b(V100|T4|P100|P40|P4|RTX 20\d\d|GTX 10\d\d|TITAN|Quadro RTX|MI[56]0)", 12.0),
)
"""what pinned copies reach over PCIe x16, GB/s, by the generation of the board (5, 4, 3): about
80 % of 63, 31.5 and 15.75 GB/s"""
UNKNOWN_GBS = 12.0
MOST_FASTER, USUALLY_FASTER = 8.0, 2.0
"""how much faster pinned copies are than pageable ones of the same machine: at most, the fastest of
these links over the 5 to 6 GB/s that pageable copies usually reach, and on the machine on which
these were measured, which did 11 to 12 GB/s pinned (rapidsai/dask-cuda#98)"""
BIG_BYTES = 1_000_000
"""smaller copies tell latency, not bandwidth"""
COPY_S = 2e-6
CALL_S = 5e-6
"""what any copy takes on the device, and any call of one on the host, however few its bytes"""


def link_gbs(name: str | None) -> tuple[float, bool]:
    """What pinned copies can reach with a device of this name, GB/s, and whether it is known."""
    for pattern, rate in _LINKS:
        if name and re.search(pattern, name, re.I):
            return rate, True
    return UNKNOWN_GBS, False


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Some copies in scope: rows of the device's events, sizes in bytes (0: not recorded),
    seconds each. Shares are of the step: ``exposed`` device time with nothing useful beside it,
    ``calls`` device idle inside the copies' calls on the host, ``refill`` device idle because the
    host had waited for them."""

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
        """All that they hold up, as share of the step."""
        return self.exposed + self.calls + self.refill

    def median_rate(self) -> float | None:
        """Median rate of the big copies, GB/s; None without one."""
        big = (self.sizes >= BIG_BYTES) & (self.seconds > 0)
        return float(np.median(self.sizes[big] / self.seconds[big]) / 1e9) if big.any() else None

    @property
    def overall_rate(self) -> float | None:
        """Rate of all of them together, their latencies included, GB/s; None without any bytes."""
        took, size = float(self.seconds.sum()), float(self.sizes.sum())
        return size / took / 1e9 if took and size else None

    def at_rate(self, gbs: float) -> float:
        """How long the same copies take at another rate, s; never longer than they took."""
        fastest = np.minimum(self.seconds, COPY_S + self.sizes / (gbs * 1e9))
        return float(fastest.sum())


def find_copies(facts: Facts, kind: str, direction: str = "h2d") -> Copies:
    """Copies in scope by memory kind on the host: "pageable", "other" (pinned, or the recording
    does not tell), "pinned" or "any". Those that bring back what the CPU did in the midst of a step
    are left out: how batches are sent does nothing for them."""
    device, host = facts.device, facts.timeline.host
    rows = facts.device_rows
    every = rows[facts.direction[rows] == direction]
    detours = np.concatenate([np.empty(0, np.int64), *facts.waits.cpu_fallbacks])
    every = every[~np.isin(facts.launches.call[every], detours)]
    rows = every[_of_kind(facts, every, kind)]
    calls = facts.launches.call[rows]
    calls = calls[calls >= 0]
    inside = union_of(host.start[calls], host.end[calls])
    seconds = facts.durations_s(rows)
    whole = float(facts.durations_s(every).sum())
    return Copies(
        rows=rows,
        sizes=np.maximum(device.size[rows], 0).astype(np.float64),
        seconds=seconds,
        exposed=_exposed_share(facts, union_of(device.start[rows], device.end[rows]), "copy"),
        calls=_exposed_share(facts, inside, "copy_call"),
        refill=facts.bucket_share("copy_refill") * (float(seconds.sum()) / whole if whole else 0.0),
    )


def copy_place(facts: Facts, rows: I64) -> Place | None:
    """Where the program asked for the longest of some copies."""
    rows = rows[facts.launches.call[rows] >= 0]
    if not len(rows):
        return None
    row = int(rows[np.argmax(facts.durations_s(rows))])
    op = int(facts.launching_op[row])
    return facts.places.place_of(op if op >= 0 else int(facts.launches.call[row]))


def _exposed_share(facts: Facts, where: Intervals, reason: str) -> float:
    return facts.share_of(facts.time_of(reason) & where)


def _of_kind(facts: Facts, rows: I64, kind: str) -> NDArray[np.bool_]:
    names = [facts.timeline.names[i].lower() for i in facts.device.name[rows]]
    pageable = np.array(["pageable" in name for name in names], dtype=bool)
    pinned = np.array(["pinned" in name for name in names], dtype=bool)
    return {
        "pageable": pageable,
        "pinned": pinned,
        "other": ~pageable,
        "any": np.ones(len(rows), dtype=bool),
    }[kind]


def pinned_gbs(facts: Facts, pageable: float | None = None) -> tuple[float, float, str]:
    """What pinned copies would reach here, GB/s: (likely, careful, where it is from). The big
    pinned copies of the recording, or the class of the board; carefully half of that class, for
    a slot of an older generation or a shared switch. A machine whose other copies crawl
    (``pageable``, GB/s) is not thought to do better than so much faster: a slow host or link slows
    both."""
    seen = find_copies(facts, "pinned").median_rate()
    if seen is not None:
        return seen, seen, "pinned copies of the same recording"
    rate, known = link_gbs(facts.timeline.info.name)
    source, careful = "class of the board" if known else "slowest common class", rate / 2
    if pageable is not None:
        careful = min(careful, pageable * USUALLY_FASTER)
        if pageable * MOST_FASTER < rate:
            rate = pageable * MOST_FASTER
            source = f"{MOST_FASTER:.0f} times the rate of the copies"
    return rate, careful, source
