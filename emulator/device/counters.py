"""Counters of a device as a driver would keep them, from the true busy intervals.

They only grow, and a look adds what happened since the last: a kernel that is half done counts
half. Ratios over a window are differences of two looks.
"""

from __future__ import annotations

from typing import Any

from emulator.device.device import Device
from emulator.device.record import Busy, union
from emulator.device.stream import COMMUNICATION, COMPUTE, COPY_IN, COPY_OUT

IDLE_MHZ = 345
KERNELS = (COMPUTE, COMMUNICATION)
IDLE_REASON = 0x1
"""as NVML has it"""


class Counters:
    """Of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.looked = device.begun
        self._from: dict[int, int] = {}
        """by stream, how many intervals have been counted to their ends"""
        self.busy_ns = 0
        self.energy_uj = 0.0
        self.sums = {"active_ns": 0.0, "tensor_ns": 0.0, "memory_ns": 0.0}
        self.moved = {COPY_IN: 0.0, COPY_OUT: 0.0}

    def look(self, moment: int) -> dict[str, Any]:
        """All counters and gauges at this moment, not before the last look."""
        begin, self.looked = self.looked, moment
        window = self._window(begin, moment)
        ran = union([(b, e) for b, e, each in window if each.cost.kind in KERNELS])
        busy_ns = sum(end - start for start, end in ran)
        self.busy_ns += busy_ns
        active = self.sums["active_ns"]
        for start, end, each in window:
            self._add(each, (end - start) / max(each.end - each.begin, 1))
        share = min(1.0, (self.sums["active_ns"] - active) / max(moment - begin, 1))
        return self._told(moment, share, busy_ns, (moment - begin) / 1e3)

    def _window(self, begin: int, moment: int) -> list[tuple[int, int, Busy]]:
        """What ran between two moments, cut at them."""
        found = []
        with self.device.lock:
            for stream, busy in self.device.record.busy.items():
                gone = self.device.record.gone.get(stream, 0)
                at = max(0, self._from.get(stream, 0) - gone)
                while at < len(busy) and busy[at].end <= begin:
                    at += 1
                self._from[stream] = gone + max(0, at - 1)  # the last one may still grow
                for each in busy[at:]:
                    if each.begin >= moment:
                        break
                    found.append((max(begin, each.begin), min(moment, each.end), each))
        return found

    def _add(self, each: Busy, share: float) -> None:
        for name in self.sums:
            self.sums[name] += getattr(each.cost, name) * share
        if each.cost.kind in self.moved:
            self.moved[each.cost.kind] += each.cost.bytes_ * share

    def _told(self, moment: int, share: float, busy_ns: int, us: float) -> dict[str, Any]:
        config = self.device.config
        factor, reasons = config.clock(moment - self.device.begun)
        power_w = config.power_idle_w
        power_w += (config.power_limit_w - config.power_idle_w) * share * factor
        self.energy_uj += power_w * us
        return {
            "index": self.device.index,
            "name": config.name,
            "busy_ns": self.busy_ns,
            **{name: int(value) for name, value in self.sums.items()},
            "received_bytes": int(self.moved[COPY_IN]),
            "sent_bytes": int(self.moved[COPY_OUT]),
            "memory_used_bytes": self.device.memory.reserved,
            "memory_total_bytes": config.memory_bytes,
            "clock_sm_mhz": int(config.clock_mhz * factor) if busy_ns else IDLE_MHZ,
            "clock_sm_max_mhz": config.clock_mhz,
            "clock_reasons": reasons if busy_ns else IDLE_REASON,
            "power_w": round(power_w, 1),
            "power_limit_w": config.power_limit_w,
            "power_limit_default_w": config.power_limit_default_w,
            "energy_j": self.energy_uj / 1e6,
            "link_width": config.link_width,
            "link_width_max": config.link_width_max,
        }
