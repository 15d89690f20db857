"""Intel's discrete GPUs through the files of Linux' drivers xe and i915: energy, power limit, clock
and PCIe lanes.

Utilization and memory of the whole card need the kernel's performance events, which are not read
here. It has never run on hardware: it is tested on files as the kernel's documentation describes
them (Documentation/ABI/testing/sysfs-driver-intel-xe-hwmon).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whyidle.errors import InputError
from whyidle.model.telemetry import Absent, Available, Meter, Reader, Reading, Target
from whyidle.sources import _gpu_signals
from whyidle.sources._drm_cards import INTEL, DrmCard, link_lanes, list_cards

PERIOD_S = 0.5
LIVE = bool(list_cards(Path("/"), INTEL))
"""elsewhere nobody is to hear of it"""
_GIVEN: Final = {"energy_j", "power_limit_w", "clock_sm_mhz", "pcie_lanes", "pcie_lanes_max"}
_LACKED: Final = {"busy_ratio", "memory_used_bytes", "memory_total_bytes"}
SIGNALS: tuple[Meter, ...] = tuple(
    meter for meter in _gpu_signals.METERS if meter.id in _GIVEN | _LACKED
)
_CLOCKS: Final = ("tile0/gt0/freq0/cur_freq", "drm/card0/gt_cur_freq_mhz")
"""of xe, and of i915"""
_PERFMON: Final = Absent(
    "the drivers xe and i915 show it to performance monitors only", "run xpu-smi as root"
)
_DRIVER: Final = "load the kernel module xe or i915"


class _IntelReader:
    def __init__(self, cards: list[DrmCard]) -> None:
        self._cards = cards
        self.facts: dict[str, str] = {}
        self.missing: dict[str, Absent] = dict.fromkeys(sorted(_LACKED), _PERFMON)
        for card in cards:
            self.facts[f"name@{card.subject}"] = "Intel GPU"
            self.facts[f"pci@{card.subject}"] = self.facts[f"uuid@{card.subject}"] = card.pci

    def read(self) -> Reading:
        """Every value of every card now."""
        into: Reading = {}
        for card in self._cards:
            sensors = card.hardware_monitor()
            clocks = (card.read_number(name) for name in _CLOCKS)
            values: Reading = {
                "energy_j": card.read_number(f"{sensors}/energy1_input", 1e-6),
                "power_limit_w": card.read_number(f"{sensors}/power1_max", 1e-6),
                "clock_sm_mhz": next((one for one in clocks if one is not None), None),
                **dict.fromkeys(_LACKED),
                **link_lanes(card),
            }
            into |= {f"{signal}@{card.subject}": value for signal, value in values.items()}
        return into

    def close(self) -> None:
        """Nothing is open between reads."""


def probe(target: Target = Target()) -> Available | Absent:  # noqa: B008  # frozen
    """Return whether xe or i915 shows a discrete card."""
    if not list_cards(target.root, INTEL):
        return Absent("the drivers xe and i915 show no discrete GPU", _DRIVER)
    return Available(dict.fromkeys(sorted(_LACKED), _PERFMON))


def open(target: Target) -> Reader:  # noqa: A001  # a source's verb
    """Read all discrete Intel GPUs of the machine.

    Raises:
        InputError: there is none.
    """
    cards = list_cards(target.root, INTEL)
    if not cards:
        raise InputError("Cannot read Intel GPUs.", why="There is no discrete one.", hint=_DRIVER)
    return _IntelReader(cards)
