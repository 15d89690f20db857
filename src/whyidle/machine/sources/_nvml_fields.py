"""NVML calls per signal. A field is one call, so that failures stay separate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from whyidle.machine.sources._gpu_signals import parse_number, parse_percent
from whyidle.model.live.telemetry import Reading, Value

Call = Callable[[Any, Any], Reading]
"""(pynvml, handle) -> values; raises NVMLError"""


class Field(NamedTuple):
    """One call. ``of`` is its scope on a MIG slice: the ``slice``, its ``card``, or ``alone``
    (whole cards only, as the number includes other tenants)."""

    signals: tuple[str, ...]
    of: str
    call: Call


def _query_utilization(nvml: Any, handle: Any) -> Reading:
    return {"busy_ratio": parse_percent(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)}


def _query_memory(nvml: Any, handle: Any) -> Reading:
    """The second version excludes the driver's own memory, as nvidia-smi does."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError, AttributeError, TypeError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return {
        "memory_used_bytes": parse_number(memory.used, wide=True),
        "memory_total_bytes": parse_number(memory.total, wide=True),
    }


def _query_clock_reasons(nvml: Any, handle: Any) -> Reading:
    """Drivers before R535 know the call only by its old name."""
    try:
        bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except (nvml.NVMLError_FunctionNotFound, AttributeError):
        bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {"clock_reasons": parse_number(bits, wide=True)}


def _bus_counters(nvml: Any, handle: Any) -> Reading:
    """Cumulative bytes, which newer drivers count; field values fail one by one."""
    fields = (nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES)
    sent, received = nvml.nvmlDeviceGetFieldValues(handle, list(fields))
    return {
        "pcie_sent_bytes": _decode_field(nvml, sent),
        "pcie_received_bytes": _decode_field(nvml, received),
    }


def _decode_field(nvml: Any, value: Any) -> Value:
    if value.nvmlReturn != 0:
        return None
    members = {
        nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    }
    member = members.get(value.valueType)
    if member is None:
        return None
    return parse_number(getattr(value.value, member), wide=member != "uiVal")


def _bus_window(nvml: Any, handle: Any) -> Reading:
    """KiB/s, counted by the driver over 20 ms, for which each of the two calls waits."""
    sent = nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_TX_BYTES)
    received = nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_RX_BYTES)
    return {
        "pcie_sent_bytes_per_s": parse_number(sent, 1024),
        "pcie_received_bytes_per_s": parse_number(received, 1024),
    }


def _simple_field(
    signal: str, function: str, *constants: str, of: str, scale: float = 1, wide: bool = False
) -> Field:
    def call(nvml: Any, handle: Any) -> Reading:
        arguments = [getattr(nvml, name) for name in constants]
        value = getattr(nvml, f"nvmlDeviceGet{function}")(handle, *arguments)
        return {signal: parse_number(value, scale, wide=wide)}

    return Field((signal,), of, call)


def _violation_field(signal: str, policy: str) -> Field:
    def call(nvml: Any, handle: Any) -> Reading:
        status = nvml.nvmlDeviceGetViolationStatus(handle, getattr(nvml, policy))
        return {signal: parse_number(status.violationTime, 1e-9, wide=True)}

    return Field((signal,), "card", call)


FAST: Final = (
    Field(("busy_ratio",), "alone", _query_utilization),
    Field(("memory_used_bytes", "memory_total_bytes"), "slice", _query_memory),
    _simple_field("clock_sm_mhz", "ClockInfo", "NVML_CLOCK_SM", of="card"),
    Field(("clock_reasons",), "card", _query_clock_reasons),
    _simple_field("power_w", "PowerUsage", scale=1e-3, of="alone"),
    _simple_field("energy_j", "TotalEnergyConsumption", scale=1e-3, of="alone", wide=True),
    _simple_field("temperature_c", "Temperature", "NVML_TEMPERATURE_GPU", of="card"),
    _violation_field("held_by_power_s", "NVML_PERF_POLICY_POWER"),
    _violation_field("held_by_heat_s", "NVML_PERF_POLICY_THERMAL"),
    Field(("pcie_sent_bytes", "pcie_received_bytes"), "alone", _bus_counters),
)
"""queried at every read"""

SLOW: Final = (
    _simple_field("clock_sm_max_mhz", "MaxClockInfo", "NVML_CLOCK_SM", of="card"),
    _simple_field("power_limit_w", "EnforcedPowerLimit", scale=1e-3, of="card"),
    _simple_field("power_limit_default_w", "PowerManagementDefaultLimit", scale=1e-3, of="card"),
    _simple_field("pcie_generation", "CurrPcieLinkGeneration", of="card"),
    _simple_field("pcie_generation_max", "MaxPcieLinkGeneration", of="card"),
    _simple_field("pcie_lanes", "CurrPcieLinkWidth", of="card"),
    _simple_field("pcie_lanes_max", "MaxPcieLinkWidth", of="card"),
)
"""queried at the first read and at every twentieth, as they hardly change"""
BUS_WINDOW: Final = Field(
    ("pcie_sent_bytes_per_s", "pcie_received_bytes_per_s"), "alone", _bus_window
)
"""queried with the slow ones if neither counters nor GPM report traffic"""
