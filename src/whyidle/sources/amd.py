"""AMD GPUs through the files of Linux' driver amdgpu: utilization, memory, power, heat, clocks, and
the processes that hold device memory (KFD).

It needs neither a package nor rights. It has never run on hardware: it is tested on files as the
kernel's documentation describes them (Documentation/gpu/amdgpu/driver-misc.rst, thermal.rst).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whyidle.errors import InputError
from whyidle.model.telemetry import Absent, Available, Meter, Reader, Reading, Target
from whyidle.sources import _gpu_signals
from whyidle.sources._drm_cards import AMD, DrmCard, link_lanes, list_cards
from whyidle.sources._open_file import read_text

PERIOD_S = 0.5
LIVE = bool(list_cards(Path("/"), AMD))
"""elsewhere nobody is to hear of it"""
_KFD: Final = "sys/class/kfd/kfd"
_FILES: Final = {
    "busy_ratio": ("gpu_busy_percent", 0.01),
    "memory_busy_ratio": ("mem_busy_percent", 0.01),
    "memory_used_bytes": ("mem_info_vram_used", 1.0),
    "memory_total_bytes": ("mem_info_vram_total", 1.0),
}
_SENSORS: Final = {
    "power_w": ("power1_average", 1e-6),
    "power_limit_w": ("power1_cap", 1e-6),
    "power_limit_default_w": ("power1_cap_default", 1e-6),
    "temperature_c": ("temp1_input", 1e-3),
    "clock_sm_mhz": ("freq1_input", 1e-6),
    "clock_memory_mhz": ("freq2_input", 1e-6),
}
_OTHERS: Final = ("processes", "process_memory_bytes", "pcie_lanes", "pcie_lanes_max")
SIGNALS: tuple[Meter, ...] = tuple(
    meter for meter in _gpu_signals.METERS if meter.id in {*_FILES, *_SENSORS, *_OTHERS}
)
_DRIVER: Final = "load the kernel module amdgpu"


class _AmdReader:
    def __init__(self, root: Path, cards: list[DrmCard]) -> None:
        self._root, self._cards = root, cards
        self._ids = {card.subject: _kfd_id(root, card) for card in cards}
        self.facts: dict[str, str] = {}
        self.missing: dict[str, Absent] = {}
        for card in cards:
            name = read_text(card.folder / "product_name") or "AMD GPU"
            serial = read_text(card.folder / "unique_id")
            self.facts[f"name@{card.subject}"] = name
            self.facts[f"pci@{card.subject}"] = card.pci
            self.facts[f"uuid@{card.subject}"] = f"GPU-{serial}" if serial else card.pci

    def read(self) -> Reading:
        """Every value of every card now."""
        into: Reading = {}
        for card in self._cards:
            sensors = card.hardware_monitor()
            values: Reading = {s: card.read_number(*file) for s, file in _FILES.items()}
            for signal, (name, scale) in _SENSORS.items():
                values[signal] = card.read_number(f"{sensors}/{name}", scale)
            for signal in ("busy_ratio", "memory_busy_ratio"):
                if (share := values[signal]) is not None and share > 1:
                    values[signal] = None
            values |= link_lanes(card)
            held = self._read_processes(card)
            values["processes"] = len(held)
            into |= {f"{signal}@{card.subject}": value for signal, value in values.items()}
            for pid, size in held.items():
                into[f"process_memory_bytes@{card.subject}.pid{pid}"] = size
        return into

    def _read_processes(self, card: DrmCard) -> dict[int, int]:
        held = {}
        for path in (self._root / _KFD / "proc").glob(f"*/vram_{self._ids[card.subject]}"):
            size = read_text(path)
            if path.parent.name.isdigit() and size.isdigit() and int(size):
                held[int(path.parent.name)] = int(size)
        return held

    def close(self) -> None:
        """Nothing is open between reads."""


def _kfd_id(root: Path, card: DrmCard) -> str:
    """The number by which KFD calls a card, found by its place on the bus."""
    try:
        bus, device, function = card.pci.replace(".", ":").split(":")[1:4]
        place = int(bus, 16) << 8 | int(device, 16) << 3 | int(function, 16)
    except (ValueError, IndexError):
        return "none"
    for node in (root / _KFD / "topology/nodes").glob("*"):
        words = read_text(node / "properties").split()
        if dict(zip(words[::2], words[1::2], strict=False)).get("location_id") == str(place):
            return read_text(node / "gpu_id") or "none"
    return "none"


def probe(target: Target = Target()) -> Available | Absent:  # noqa: B008  # frozen
    """Return whether amdgpu shows a card."""
    if not list_cards(target.root, AMD):
        return Absent("the driver amdgpu shows no GPU", _DRIVER)
    return Available()


def open(target: Target) -> Reader:  # noqa: A001  # a source's verb
    """Read all AMD GPUs of the machine.

    Raises:
        InputError: there is none.
    """
    cards = list_cards(target.root, AMD)
    if not cards:
        raise InputError("Cannot read AMD GPUs.", why="amdgpu shows none.", hint=_DRIVER)
    return _AmdReader(target.root, cards)
