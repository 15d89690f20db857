"""Intel's discrete GPUs through the files of Linux' drivers xe and i915: energy, power limit,
clock, PCIe lanes, and the utilization and memory of each process.

The drivers show utilization and memory of each open file only. They are added up for the card where
all processes may be looked at, as root may; otherwise those of the card are not known. It has never
run on hardware: it is tested on files as the kernel's documentation describes them
(Documentation/ABI/testing/sysfs-driver-intel-xe-hwmon, Documentation/gpu/drm-usage-stats.rst,
xe/xe-drm-usage-stats.rst); what the whole memory is follows ``xe_tile_sysfs.c``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from whyidle.errors import InputError
from whyidle.model.telemetry import Absent, Available, Meter, Reader, Reading, Target
from whyidle.sources import _gpu_signals
from whyidle.sources._drm_cards import INTEL, DrmCard, link_lanes, list_cards
from whyidle.sources._drm_clients import Client, DrmClients

PERIOD_S = 0.5
LIVE = bool(list_cards(Path("/"), INTEL))
"""elsewhere nobody is to hear of it"""
_ADDED: Final = ("busy_ratio", "memory_used_bytes", "processes")
"""figures of a card that are added up over its processes"""
_GIVEN: Final = (
    *("energy_j", "power_limit_w", "clock_sm_mhz", "pcie_lanes", "pcie_lanes_max"),
    *("memory_total_bytes", "process_memory_bytes", "process_busy_ratio"),
)
SIGNALS: tuple[Meter, ...] = tuple(
    meter for meter in _gpu_signals.METERS if meter.id in {*_GIVEN, *_ADDED}
)
_CLOCKS: Final = ("tile0/gt0/freq0/cur_freq", "drm/card0/gt_cur_freq_mhz")
"""of xe, and of i915"""
_HIDDEN: Final = Absent(
    "the drivers xe and i915 show it of each process, and those of other users are hidden",
    "run whyidle as root",
)
_DRIVER: Final = "load the kernel module xe or i915"


class _IntelReader:
    def __init__(self, root: Path, cards: list[DrmCard]) -> None:
        self._cards, self._clients = cards, DrmClients(root)
        self.facts: dict[str, str] = {}
        self.missing: dict[str, Absent] = {}
        for card in cards:
            self.facts[f"name@{card.subject}"] = "Intel GPU"
            self.facts[f"pci@{card.subject}"] = self.facts[f"uuid@{card.subject}"] = card.pci

    def read(self) -> Reading:
        """Every value of every card now."""
        into: Reading = {}
        clients = self._clients.read_clients()
        self.missing = dict.fromkeys(_ADDED, _HIDDEN) if self._clients.hidden else {}
        for card in self._cards:
            sensors = card.hardware_monitor()
            clocks = (card.read_number(name) for name in _CLOCKS)
            values: Reading = {
                "energy_j": card.read_number(f"{sensors}/energy1_input", 1e-6),
                "power_limit_w": card.read_number(f"{sensors}/power1_max", 1e-6),
                "clock_sm_mhz": next((one for one in clocks if one is not None), None),
                "memory_total_bytes": _total_memory(card),
                **link_lanes(card),
            }
            held = _by_process([one for one in clients if one[0].pci == card.pci])
            values |= dict.fromkeys(_ADDED) if self._clients.hidden else _add_up(held)
            into |= {f"{signal}@{card.subject}": value for signal, value in values.items()}
            for pid, (busy, size) in held.items():
                into[f"process_busy_ratio@{card.subject}.pid{pid}"] = busy and min(1.0, busy)
                into[f"process_memory_bytes@{card.subject}.pid{pid}"] = size
        return into

    def close(self) -> None:
        """Nothing is open between reads."""


def _total_memory(card: DrmCard) -> float | None:
    """The memory of all tiles. i915 does not tell it."""
    tiles = sorted(path.name for path in card.folder.glob("tile[0-9]*"))
    sizes = [card.read_number(f"{tile}/physical_vram_size_bytes") for tile in tiles]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _by_process(
    clients: Sequence[tuple[Client, float | None]],
) -> dict[int, tuple[float | None, float | None]]:
    """Busy share and memory of each process, which may have several clients."""
    held: dict[int, tuple[float | None, float | None]] = {}
    for client, busy in clients:
        before = held.get(client.pid, (None, None))
        held[client.pid] = (_sum_known(before[0], busy), _sum_known(before[1], client.memory_bytes))
    return held


def _add_up(held: Mapping[int, tuple[float | None, float | None]]) -> Reading:
    """The card's figures. Nobody uses a card without clients; of a new one nothing is known yet."""
    shares, sizes = ([one[side] for one in held.values()] for side in (0, 1))
    known = all(share is not None for share in shares)
    busy = min(1.0, sum(share or 0.0 for share in shares)) if known else None
    known = all(size is not None for size in sizes)
    used = sum(size or 0.0 for size in sizes) if known else None
    return {"busy_ratio": busy, "memory_used_bytes": used, "processes": len(held)}


def _sum_known(first: float | None, second: float | None) -> float | None:
    return second if first is None else first + (second or 0.0)


def probe(target: Target = Target()) -> Available | Absent:  # noqa: B008  # frozen
    """Return whether xe or i915 shows a discrete card."""
    if not list_cards(target.root, INTEL):
        return Absent("the drivers xe and i915 show no discrete GPU", _DRIVER)
    return Available()


def open(target: Target) -> Reader:  # noqa: A001  # a source's verb
    """Read all discrete Intel GPUs of the machine.

    Raises:
        InputError: there is none.
    """
    cards = list_cards(target.root, INTEL)
    if not cards:
        raise InputError("Cannot read Intel GPUs.", why="There is no discrete one.", hint=_DRIVER)
    return _IntelReader(target.root, cards)
