"""The signals of GPUs, the same from a live device and from a log that was recorded once."""

from __future__ import annotations

import math
from typing import Any, Final

from whyidle.model.telemetry import Meter, Value, make_meters

_BLANK_32: Final = 0x7FFFFFF0
"""DCGM's blanks for 32 bits begin here, NVML_VALUE_NOT_AVAILABLE_uint lies above; no number of
degrees, megahertz or milliwatts does"""
_BLANK_64: Final = 1 << 62
"""no count of bytes, nanoseconds or millijoules comes near; all 64-bit blanks lie above"""

METERS: Final[tuple[Meter, ...]] = (
    *make_meters(
        "utilization",
        None,
        ("busy_ratio", "ratio", "gauge", "time that any kernel ran, on however few units"),
        ("memory_busy_ratio", "ratio", "gauge", "time that device memory was read or written"),
        subject="gpu",
    ),
    *make_meters(
        "memory",
        None,
        ("memory_used_bytes", "bytes", "gauge", "device memory in use, by whomever"),
        ("memory_total_bytes", "bytes", "gauge", "device memory"),
        subject="gpu",
    ),
    *make_meters(
        "clocks",
        None,
        ("clock_sm_mhz", "MHz", "gauge", "clock of the multiprocessors"),
        ("clock_memory_mhz", "MHz", "gauge", "clock of the memory"),
        ("clock_reasons", "bits", "gauge", "why the clocks are as they are (CLOCK_REASONS)"),
        subject="gpu",
    ),
    *make_meters(
        "power",
        None,
        ("power_w", "W", "gauge", "power drawn"),
        ("energy_j", "J", "counter", "energy used since the driver was loaded"),
        ("temperature_c", "C", "gauge", "temperature of the GPU"),
        subject="gpu",
    ),
    *make_meters(
        "held back",
        None,
        ("held_by_power_s", "s", "counter", "time that clocks were lowered to limit power"),
        ("held_by_heat_s", "s", "counter", "time that clocks were lowered because of heat"),
        subject="gpu",
    ),
    *make_meters(
        "bus counters",
        None,
        ("pcie_sent_bytes", "bytes", "counter", "bytes from the GPU over PCIe"),
        ("pcie_received_bytes", "bytes", "counter", "bytes to the GPU over PCIe"),
        subject="gpu",
    ),
    *make_meters(
        "processes",
        None,
        ("processes", "1", "gauge", "processes that compute on the GPU"),
        subject="gpu",
    ),
    *make_meters(
        "processes",
        None,
        ("process_memory_bytes", "bytes", "gauge", "device memory of a process"),
        ("process_busy_ratio", "ratio", "gauge", "time that kernels of a process ran"),
        subject="gpu process",
    ),
    *make_meters(
        "limits",
        None,
        ("clock_sm_max_mhz", "MHz", "gauge", "highest clock of the multiprocessors"),
        ("clock_memory_max_mhz", "MHz", "gauge", "highest clock of the memory"),
        ("power_limit_w", "W", "gauge", "power limit in force"),
        ("power_limit_default_w", "W", "gauge", "power limit that the card ships with"),
        ("temperature_slowdown_c", "C", "gauge", "temperature at which the hardware slows down"),
        ("temperature_max_c", "C", "gauge", "temperature at which software slows the clocks"),
        ("temperature_memory_c", "C", "gauge", "temperature of the memory"),
        ("pcie_generation", "1", "gauge", "PCIe generation in use; idle cards lower it"),
        ("pcie_generation_max", "1", "gauge", "PCIe generation that card and slot allow"),
        ("pcie_lanes", "1", "gauge", "PCIe lanes in use"),
        ("pcie_lanes_max", "1", "gauge", "PCIe lanes that card and slot allow"),
        subject="gpu",
    ),
    *make_meters(
        "health",
        None,
        ("memory_errors_corrected", "1", "counter", "memory errors corrected since the last reset"),
        ("memory_errors_uncorrected", "1", "counter", "memory errors not corrected"),
        ("rows_remapped", "1", "counter", "rows of memory replaced because of errors"),
        ("xid_events", "1", "counter", "critical errors (XID) since reading began"),
        ("xid_last", "1", "gauge", "number of the latest of them"),
        subject="gpu",
    ),
    *make_meters(
        "bus window",
        None,
        ("pcie_sent_bytes_per_s", "bytes/s", "gauge", "traffic from the GPU over PCIe"),
        ("pcie_received_bytes_per_s", "bytes/s", "gauge", "traffic to the GPU over PCIe"),
        subject="gpu",
    ),
    *make_meters(
        "gpm",
        None,
        ("sm_active_ratio", "ratio", "gauge", "multiprocessors that had a warp, mean over time"),
        ("sm_occupancy_ratio", "ratio", "gauge", "warps resident, of those that fit"),
        ("tensor_active_ratio", "ratio", "gauge", "time that tensor cores worked"),
        ("dram_active_ratio", "ratio", "gauge", "bandwidth of device memory in use"),
        ("fp64_active_ratio", "ratio", "gauge", "time that FP64 units worked"),
        ("fp32_active_ratio", "ratio", "gauge", "time that FP32 units worked"),
        ("fp16_active_ratio", "ratio", "gauge", "time that FP16 units worked"),
        ("nvlink_sent_bytes_per_s", "bytes/s", "gauge", "traffic from the GPU over NVLink"),
        ("nvlink_received_bytes_per_s", "bytes/s", "gauge", "traffic to the GPU over NVLink"),
        subject="gpu",
    ),
)


def parse_number(value: Any, scale: float = 1, *, wide: bool = False) -> Value:
    """A measured number times a scale; None for blanks, negatives, NaN and what is no number.

    Args:
        value: what a library gave.
        scale: from its unit to ours.
        wide: counts of bytes, nanoseconds and the like, which 64 bits hold.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or not 0 <= value < (_BLANK_64 if wide else _BLANK_32):
        return None
    return value if scale == 1 else value * scale


def parse_percent(value: Any) -> float | None:
    """A percentage as a ratio; None for a blank, and for more than all."""
    found = parse_number(value)
    return None if found is None or found > 100 else found / 100
