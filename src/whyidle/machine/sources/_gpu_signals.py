"""Signals of GPUs, shared by live devices and recorded logs."""

from __future__ import annotations

import math
from typing import Any, Final

from whyidle.model.live.telemetry import Kind, Meter, Value, make_meters

_BLANK_32: Final = 0x7FFFFFF0
"""DCGM's 32-bit blanks begin here, NVML_VALUE_NOT_AVAILABLE_uint lies above; degrees, megahertz and
milliwatts stay below"""
_BLANK_64: Final = 1 << 62
"""all 64-bit blanks lie above; counts of bytes, nanoseconds and millijoules stay below"""


def _gpu_meters(group: str, *signals: tuple[str, str, Kind, str]) -> tuple[Meter, ...]:
    return make_meters(group, None, *signals, subject="gpu")


METERS: Final[tuple[Meter, ...]] = (
    *_gpu_meters("utilization",
        ("busy_ratio", "ratio", "gauge", "time that any kernel ran, on however few units")),
    *_gpu_meters("memory",
        ("memory_used_bytes", "bytes", "gauge", "device memory in use by all processes"),
        ("memory_total_bytes", "bytes", "gauge", "device memory")),
    *_gpu_meters("clocks",
        ("clock_sm_mhz", "MHz", "gauge", "clock of the multiprocessors"),
        ("clock_reasons", "bits", "gauge", "reasons for the current clocks (CLOCK_REASONS)")),
    *_gpu_meters("power",
        ("power_w", "W", "gauge", "power drawn"),
        ("energy_j", "J", "counter", "energy used since the driver was loaded"),
        ("temperature_c", "C", "gauge", "temperature of the GPU")),
    *_gpu_meters("held back",
        ("held_by_power_s", "s", "counter", "time that clocks were lowered to limit power"),
        ("held_by_heat_s", "s", "counter", "time that clocks were lowered because of heat")),
    *_gpu_meters("bus counters",
        ("pcie_sent_bytes", "bytes", "counter", "bytes from the GPU over PCIe"),
        ("pcie_received_bytes", "bytes", "counter", "bytes to the GPU over PCIe")),
    *_gpu_meters("processes", ("processes", "1", "gauge", "processes that compute on the GPU")),
    *make_meters("processes", None,
        ("process_memory_bytes", "bytes", "gauge", "device memory of a process"),
        ("process_busy_ratio", "ratio", "gauge", "time that kernels of a process ran"),
        subject="gpu process"),
    *_gpu_meters("limits",
        ("clock_sm_max_mhz", "MHz", "gauge", "highest clock of the multiprocessors"),
        ("power_limit_w", "W", "gauge", "power limit in force"),
        ("power_limit_default_w", "W", "gauge", "default power limit of the card"),
        ("pcie_generation", "1", "gauge", "PCIe generation in use; idle cards lower it"),
        ("pcie_generation_max", "1", "gauge", "PCIe generation that card and slot allow"),
        ("pcie_lanes", "1", "gauge", "PCIe lanes in use"),
        ("pcie_lanes_max", "1", "gauge", "PCIe lanes that card and slot allow")),
    *_gpu_meters("health",
        ("xid_events", "1", "counter", "critical errors (XID) since reading began"),
        ("xid_last", "1", "gauge", "number of the latest critical error")),
    *_gpu_meters("bus window",
        ("pcie_sent_bytes_per_s", "bytes/s", "gauge", "traffic from the GPU over PCIe"),
        ("pcie_received_bytes_per_s", "bytes/s", "gauge", "traffic to the GPU over PCIe")),
    *_gpu_meters("gpm",
        ("sm_active_ratio", "ratio", "gauge", "multiprocessors that had a warp, mean over time"),
        ("sm_occupancy_ratio", "ratio", "gauge", "warps resident, of those that fit"),
        ("tensor_active_ratio", "ratio", "gauge", "time that tensor cores worked"),
        ("dram_active_ratio", "ratio", "gauge", "bandwidth of device memory in use"),
        ("nvlink_sent_bytes_per_s", "bytes/s", "gauge", "traffic from the GPU over NVLink"),
        ("nvlink_received_bytes_per_s", "bytes/s", "gauge", "traffic to the GPU over NVLink")),
)  # fmt: skip


def parse_number(value: Any, scale: float = 1, *, wide: bool = False) -> Value:
    """Return a measured number times ``scale``; None for blanks, negatives, NaN and non-numbers.
    Counts of bytes, nanoseconds and the like are ``wide`` (64 bits)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or not 0 <= value < (_BLANK_64 if wide else _BLANK_32):
        return None
    return value if scale == 1 else value * scale


def parse_percent(value: Any) -> float | None:
    """Return a percentage as a ratio; None for a blank, and above 100."""
    percent = parse_number(value)
    return None if percent is None or percent > 100 else percent / 100
