"""One GPU, or one MIG slice of it, read through NVML."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from whyidle.machine.sources._gpu_signals import parse_number, parse_percent
from whyidle.model.live.telemetry import Absent, Reading, Value

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


_FOR_GOOD: Final = ("NotSupported", "FunctionNotFound", "NoPermission", "InvalidArgument")
"""errors after which the same call is not repeated"""
_SHARED: Final = Absent("measured for the whole card only, which MIG slices share")
_COUNTED: Final = "pcie_sent_bytes"
HOW: Final = "use a GPU of the Hopper generation or later; on older ones run DCGM"
ALLOW: Final = "load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run as root"
LEAST_NS: Final = 100_000_000
_MIB: Final = float(1 << 20)
METRICS: Final = {
    "sm_active_ratio": "SM_UTIL",
    "sm_occupancy_ratio": "SM_OCCUPANCY",
    "tensor_active_ratio": "ANY_TENSOR_UTIL",
    "dram_active_ratio": "DRAM_BW_UTIL",
    "pcie_sent_bytes_per_s": "PCIE_TX_PER_SEC",
    "pcie_received_bytes_per_s": "PCIE_RX_PER_SEC",
    "nvlink_sent_bytes_per_s": "NVLINK_TOTAL_TX_PER_SEC",
    "nvlink_received_bytes_per_s": "NVLINK_TOTAL_RX_PER_SEC",
}


class GpmReader:
    """Reads one device, or one MIG slice of it (``instance``: its GPU instance)."""

    def __init__(self, nvml: Any, handle: Any, instance: int | None = None) -> None:
        self._nvml, self._handle, self._instance = nvml, handle, instance
        self._samples: list[Any] = []
        self._taken_ns: int | None = None
        self.absent = self._take_first_sample()

    def _take_first_sample(self) -> Absent | None:
        nvml = self._nvml
        try:
            if not nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
                return Absent("the device has no GPM", HOW)
            self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
            self._take_sample(self._samples[0])
        except (nvml.NVMLError, AttributeError) as error:
            self.close()
            denied = isinstance(error, nvml.NVMLError_NoPermission)
            return Absent(f"GPM: {error}", ALLOW if denied else HOW)
        self._taken_ns = time.perf_counter_ns()
        self._asked = nvml.c_nvmlGpmMetricsGet_t()
        self._asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._asked.numMetrics = len(METRICS)
        for position, name in enumerate(METRICS.values()):
            self._asked.metrics[position].metricId = getattr(nvml, f"NVML_GPM_METRIC_{name}")
        return None

    def _take_sample(self, sample: Any) -> None:
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._handle, sample)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._handle, self._instance, sample)

    def read(self) -> Reading:
        """Return means since the last read; all None if that was less than 100 ms ago or failed."""
        now = time.perf_counter_ns()
        empty: Reading = dict.fromkeys(METRICS)
        if not self._samples or (self._taken_ns is not None and now - self._taken_ns < LEAST_NS):
            return empty
        before, after = self._samples
        try:
            self._take_sample(after)
            has_previous, self._taken_ns = self._taken_ns is not None, now
            self._samples = [after, before]
            if not has_previous:
                return empty
            self._asked.sample1, self._asked.sample2 = before, after
            self._nvml.nvmlGpmMetricsGet(self._asked)
        except self._nvml.NVMLError:
            self._taken_ns = None  # the content of the older sample is unknown
            return empty
        return {
            name: _metric_value(name, self._asked.metrics[position])
            for position, name in enumerate(METRICS)
        }

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(sample)
        self._samples = []


def _metric_value(name: str, metric: Any) -> int | float | None:
    if metric.nvmlReturn != 0:
        return None
    if name.endswith("_ratio"):
        return parse_percent(metric.value)
    return parse_number(metric.value, _MIB, wide=True)


class Device:
    """Reads into keys of ``subject``.

    Args:
        nvml: the ``pynvml`` module, initialised.
        subject: ``gpu0``, or ``gpu0.mig1`` for a slice.
        card: the card's handle.
        own: the slice's handle and its GPU instance; None for a whole card.
    """

    def __init__(
        self, nvml: Any, subject: str, card: Any, own: tuple[Any, int] | None = None
    ) -> None:
        self._nvml, self._subject, self._card = nvml, subject, card
        self._own = own[0] if own else card
        self._is_slice = own is not None
        self.missing: dict[str, Absent] = {}
        self._fast, self._slow = self._offered_fields(FAST), self._offered_fields(SLOW)
        self._gpm = GpmReader(nvml, card, own[1] if own else None)
        self._tell_gpm()
        self._events = _open_event_queue(nvml, card)
        self._xids = 0
        self._reads = 0
        self._seen_until = 0
        self._knows_processes = False

    def _offered_fields(self, fields: tuple[Field, ...]) -> list[Field]:
        offered = []
        for field in fields:
            if self._is_slice and field.of == "alone":
                self._note_missing(field, _SHARED)
            else:
                offered.append(field)
        return offered

    def _tell_gpm(self) -> None:
        if self._gpm.absent is None:
            return
        for name in METRICS:
            self.missing[f"{name}@{self._subject}"] = self._gpm.absent
        if self._is_slice:
            return
        for name in BUS_WINDOW.signals:
            del self.missing[f"{name}@{self._subject}"]

    def _note_missing(self, field: Field, absent: Absent) -> None:
        for name in field.signals:
            self.missing[f"{name}@{self._subject}"] = absent

    def read(self, into: Reading) -> None:
        """Add every value."""
        values: Reading = {}
        self._query_fields(self._fast, values)
        if self._reads % 20 == 0:
            self._query_fields(self._slow, values)
            self._measure_traffic(values)
        self._reads += 1
        if self._gpm.absent is None:
            values.update(self._gpm.read())
        values.update(self._read_xid())
        into.update({f"{name}@{self._subject}": value for name, value in values.items()})
        self._read_processes(into)

    def _query_fields(self, fields: list[Field], values: Reading) -> None:
        for field in list(fields):
            handle = self._own if field.of == "slice" else self._card
            try:
                values.update(field.call(self._nvml, handle))
            except (self._nvml.NVMLError, AttributeError) as error:
                values.update(dict.fromkeys(field.signals))
                if _for_good(self._nvml, error):
                    fields.remove(field)
                    self._note_missing(field, Absent(f"NVML: {error}"))

    def _measure_traffic(self, values: Reading) -> None:
        """Measure traffic by waiting 40 ms, the last resort."""
        if self._is_slice or self._gpm.absent is None or values.get(_COUNTED) is not None:
            return
        self._query_fields([BUS_WINDOW], values)

    def _read_xid(self) -> Reading:
        if self._events is None:
            return {}
        last: Value = None
        with contextlib.suppress(self._nvml.NVMLError):
            for _ in range(64):  # ends with NVMLError_Timeout after the last one
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                self._xids += 1
                last = parse_number(event.eventData)
        return {"xid_events": self._xids, "xid_last": last}

    def _read_processes(self, into: Reading) -> None:
        nvml, subject = self._nvml, self._subject
        try:
            running = nvml.nvmlDeviceGetComputeRunningProcesses(self._own)
        except (nvml.NVMLError, AttributeError):
            into[f"processes@{subject}"] = None
            return
        into[f"processes@{subject}"] = len(running)
        pids = [] if self._is_slice else [process.pid for process in running]
        busy = self._busy_by_process(pids) if pids else {}
        for process in running:
            name = f"{subject}.pid{process.pid}"
            into[f"process_memory_bytes@{name}"] = parse_number(process.usedGpuMemory, wide=True)
            into[f"process_busy_ratio@{name}"] = busy.get(process.pid)

    def _busy_by_process(self, running: list[int]) -> dict[int, float | None]:
        """Each process's busy share since the last read; 0 if the driver reports only others.
        Process ids in a container differ from the driver's, which then reports none."""
        idle: dict[int, float | None] = dict.fromkeys(running, 0.0)
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._card, self._seen_until)
        except self._nvml.NVMLError_NotFound:
            return idle if self._knows_processes else {}
        except (self._nvml.NVMLError, AttributeError):
            return {}
        fresh = (sample for sample in samples if sample.timeStamp > self._seen_until)
        ordered = sorted(fresh, key=lambda sample: sample.timeStamp)  # drivers return old ones too
        if ordered:
            self._seen_until = ordered[-1].timeStamp
        reported = {sample.pid: parse_percent(sample.smUtil) for sample in ordered}
        if not reported.keys() & idle.keys():
            return {}
        self._knows_processes = True
        return {**idle, **reported}

    def close(self) -> None:
        """Free NVML resources."""
        self._gpm.close()
        if self._events is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._events)
            self._events = None


def _for_good(nvml: Any, error: Exception) -> bool:
    kinds = (AttributeError, *(getattr(nvml, f"NVMLError_{name}") for name in _FOR_GOOD))
    return isinstance(error, kinds)


def _open_event_queue(nvml: Any, card: Any) -> Any:
    try:
        events = nvml.nvmlEventSetCreate()
    except (nvml.NVMLError, AttributeError):
        return None
    try:
        nvml.nvmlDeviceRegisterEvents(card, nvml.nvmlEventTypeXidCriticalError, events)
    except (nvml.NVMLError, AttributeError):
        nvml.nvmlEventSetFree(events)
        return None
    return events
