"""Who uses a GPU, and how much, by what Linux' DRM drivers tell of each open file of a device
(``/proc/PID/fdinfo``; Documentation/gpu/drm-usage-stats.rst, xe/xe-drm-usage-stats.rst)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from whyidle.sources._open_file import read_text

SCAN_S: Final = 5.0
"""time between searches for processes: each reads the names of all open files of the machine"""
COMPUTE: Final = ("ccs", "rcs", "compute", "render")
"""engines that run kernels, as xe and as i915 call them; the others copy and decode"""
_DEVICE: Final = "/dev/dri/"
_LOCAL: Final = re.compile(r"drm-(resident|memory|total)-((?:vram|local)\d+)")
_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


class Client(NamedTuple):
    """One client of one card: who it is, its device memory (None: not reported), and how long its
    kernels ran: ``busy`` and ``elapsed`` are counters of one unit for each engine."""

    pid: int
    pci: str
    number: str
    memory_bytes: int | None
    engines: dict[str, tuple[float, float]]


class DrmClients:
    """The clients of all cards. ``hidden``: whether a process may not be looked at, so that the
    clients that are seen may not be all."""

    def __init__(self, root: Path) -> None:
        self._proc = root / "proc"
        self._files: list[Path] = []
        self._due = 0.0
        self._before: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
        self.hidden = False

    def read_clients(self) -> list[tuple[Client, float | None]]:
        """Every client, and the share of the time since the last call in which its kernels ran;
        None for one that is new or has no engines."""
        if time.monotonic() >= self._due:
            self._files, self._due = list(self._find_files()), time.monotonic() + SCAN_S
        clients: dict[tuple[str, str], Client] = {}
        for path in self._files:
            client = _parse_client(int(path.parts[-3]), read_text(path), time.perf_counter_ns())
            if client is not None:  # a forked process shows its parent's clients again
                clients.setdefault((client.pci, client.number), client)
        before = self._before
        self._before = {key: client.engines for key, client in clients.items()}
        return [(one, _busy_share(before.get(key), one.engines)) for key, one in clients.items()]

    def _find_files(self) -> Iterator[Path]:
        self.hidden = False
        for folder in sorted(self._proc.glob("[0-9]*"), key=lambda path: int(path.name)):
            yield from self._files_of(folder)

    def _files_of(self, folder: Path) -> Iterator[Path]:
        try:
            for file in (folder / "fd").iterdir():
                if str(file.readlink()).startswith(_DEVICE):
                    yield folder / "fdinfo" / file.name
        except PermissionError:
            self.hidden = True
        except OSError:  # it has ended
            return


def _parse_client(pid: int, text: str, now_ns: int) -> Client | None:
    pairs = (line.partition(":") for line in text.splitlines() if line.startswith("drm-"))
    values = {key: value.split() for key, _, value in pairs}
    if not values.get("drm-pdev") or not values.get("drm-client-id"):
        return None
    numbers = {key: _parse_number(words) for key, words in values.items()}
    engines = {}
    for name in COMPUTE:
        cycles, elapsed = numbers.get(f"drm-cycles-{name}"), numbers.get(f"drm-total-cycles-{name}")
        spent_ns = numbers.get(f"drm-engine-{name}")
        if cycles is not None and elapsed is not None:
            engines[name] = (cycles, elapsed)
        elif spent_ns is not None:
            engines[name] = (spent_ns, float(now_ns))
    return Client(
        pid=pid,
        pci=values["drm-pdev"][0],
        number=values["drm-client-id"][0],
        memory_bytes=_local_bytes(numbers),
        engines=engines,
    )


def _parse_number(words: list[str]) -> float | None:
    if not words or not words[0].isdecimal():
        return None
    unit = _UNITS.get(words[1] if len(words) > 1 and words[1] != "ns" else "")
    return None if unit is None else float(int(words[0]) * unit)


def _local_bytes(numbers: dict[str, float | None]) -> int | None:
    """Memory of the card that a client holds: what is resident, or what older kernels tell."""
    sizes: dict[str, dict[str, float]] = {}
    for key, value in numbers.items():
        if (match := _LOCAL.fullmatch(key)) and value is not None:
            sizes.setdefault(match[2], {})[match[1]] = value
    kinds = ("resident", "memory", "total")
    held = [next(one[kind] for kind in kinds if kind in one) for one in sizes.values()]
    return int(sum(held)) if held else None


def _busy_share(
    before: dict[str, tuple[float, float]] | None, engines: dict[str, tuple[float, float]]
) -> float | None:
    """The share in which any engine ran: at most all of them together."""
    shares = [
        max(0.0, busy - before[name][0]) / (elapsed - before[name][1])
        for name, (busy, elapsed) in engines.items()
        if before and name in before and elapsed > before[name][1]
    ]
    return min(1.0, sum(shares)) if shares else None
