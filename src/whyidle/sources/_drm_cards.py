"""GPUs as Linux' own drivers show them, in ``/sys/class/drm``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from whyidle.sources._open_file import read_text

AMD, INTEL = "0x1002", "0x8086"
_CARD = re.compile(r"card\d+")


class DrmCard(NamedTuple):
    """One card: its number among the machine's GPUs, its folder, and its address on the bus."""

    number: int
    folder: Path
    pci: str

    @property
    def subject(self) -> str:
        """Its subject in readings."""
        return f"gpu{self.number}"

    def read_number(self, name: str, scale: float = 1.0) -> float | None:
        """The number in a file below the card's folder, times ``scale``."""
        text = read_text(self.folder / name)
        try:
            value = float(text) * scale
        except ValueError:
            return None
        return value if value >= 0 else None

    def hardware_monitor(self) -> str:
        """The folder of sensors below the card's folder."""
        found = next(iter(sorted((self.folder / "hwmon").glob("hwmon*"))), None)
        return f"hwmon/{found.name}" if found else "hwmon/none"


def list_cards(root: Path, vendor: str) -> list[DrmCard]:
    """The cards of a vendor that can compute. NVIDIA's come first in a mixed machine, then AMD's,
    then Intel's, so that no two have the same number."""
    first = len(list((root / "proc/driver/nvidia/gpus").glob("*")))
    if vendor == INTEL:
        first += len(_folders_of(root, AMD))
    return [
        DrmCard(first + position, folder, folder.resolve().name)
        for position, folder in enumerate(_folders_of(root, vendor))
    ]


def _folders_of(root: Path, vendor: str) -> list[Path]:
    cards = (path for path in (root / "sys/class/drm").glob("card*") if _CARD.fullmatch(path.name))
    folders = (path / "device" for path in cards)
    ours = [path for path in folders if read_text(path / "vendor") == vendor]
    if vendor == INTEL:  # integrated graphics do not train
        ours = [path for path in ours if any((path / "hwmon").glob("hwmon*/energy1_input"))]
    return sorted(ours, key=lambda path: path.resolve().name)


def link_lanes(card: DrmCard) -> dict[str, float | None]:
    """Lanes of PCIe in use, and those that card and slot allow."""
    return {
        "pcie_lanes": card.read_number("current_link_width"),
        "pcie_lanes_max": card.read_number("max_link_width"),
    }
