"""A stand-in for the ``pynvml`` module: cards that answer as they are told, on any machine.

``module([FakeGpu(...)])`` goes into ``sys.modules["pynvml"]``. Names, constants and errors are
those of nvidia-ml-py 12.535 to 13; a test compares them with the real package where it is
installed. What a card was not told to answer is not supported, as on a MIG slice or an old card.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple

SUCCESS, UNINITIALIZED, NOT_SUPPORTED, NOT_FOUND, TIMEOUT = 0, 1, 3, 6, 10
ERRORS: Final = {
    "Uninitialized": 1,
    "InvalidArgument": 2,
    "NotSupported": 3,
    "NoPermission": 4,
    "NotFound": 6,
    "DriverNotLoaded": 9,
    "Timeout": 10,
    "LibraryNotFound": 12,
    "FunctionNotFound": 13,
    "GpuIsLost": 15,
    "Unknown": 999,
}
CONSTANTS: Final = {
    "NVML_CLOCK_SM": 1,
    "NVML_CLOCK_MEM": 2,
    "NVML_TEMPERATURE_GPU": 0,
    "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN": 1,
    "NVML_TEMPERATURE_THRESHOLD_GPU_MAX": 3,
    "NVML_PERF_POLICY_POWER": 0,
    "NVML_PERF_POLICY_THERMAL": 1,
    "NVML_PCIE_UTIL_TX_BYTES": 0,
    "NVML_PCIE_UTIL_RX_BYTES": 1,
    "NVML_MEMORY_ERROR_TYPE_CORRECTED": 0,
    "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
    "NVML_VOLATILE_ECC": 0,
    "NVML_FI_DEV_MEMORY_TEMP": 82,
    "NVML_FI_DEV_PCIE_COUNT_TX_BYTES": 197,
    "NVML_FI_DEV_PCIE_COUNT_RX_BYTES": 198,
    "NVML_VALUE_TYPE_DOUBLE": 0,
    "NVML_VALUE_TYPE_UNSIGNED_INT": 1,
    "NVML_VALUE_TYPE_UNSIGNED_LONG": 2,
    "NVML_VALUE_TYPE_UNSIGNED_LONG_LONG": 3,
    "NVML_VALUE_TYPE_SIGNED_LONG_LONG": 4,
    "NVML_GPM_METRICS_GET_VERSION": 1,
    "NVML_GPM_METRIC_SM_UTIL": 2,
    "NVML_GPM_METRIC_SM_OCCUPANCY": 3,
    "NVML_GPM_METRIC_ANY_TENSOR_UTIL": 5,
    "NVML_GPM_METRIC_DRAM_BW_UTIL": 10,
    "NVML_GPM_METRIC_FP64_UTIL": 11,
    "NVML_GPM_METRIC_FP32_UTIL": 12,
    "NVML_GPM_METRIC_FP16_UTIL": 13,
    "NVML_GPM_METRIC_PCIE_TX_PER_SEC": 20,
    "NVML_GPM_METRIC_PCIE_RX_PER_SEC": 21,
    "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC": 60,
    "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC": 61,
    "nvmlEventTypeXidCriticalError": 8,
    "nvmlMemory_v2": 0x02000028,
}
ANSWERED: Final = (
    "UtilizationRates",
    "ClockInfo",
    "MaxClockInfo",
    "CurrentClocksEventReasons",
    "CurrentClocksThrottleReasons",
    "PowerUsage",
    "EnforcedPowerLimit",
    "PowerManagementDefaultLimit",
    "TotalEnergyConsumption",
    "Temperature",
    "TemperatureThreshold",
    "ViolationStatus",
    "CurrPcieLinkGeneration",
    "MaxPcieLinkGeneration",
    "CurrPcieLinkWidth",
    "MaxPcieLinkWidth",
    "TotalEccErrors",
    "RemappedRows",
    "PcieThroughput",
    "ComputeRunningProcesses",
    "ProcessUtilization",
    "Name",
    "UUID",
)
"""calls ``nvmlDeviceGet...`` that return what ``FakeGpu.answers`` holds for them"""


class Fails(NamedTuple):
    """An answer that is an error."""

    code: int


class FakeSlice(NamedTuple):
    """One MIG device."""

    uuid: str
    gpu_instance: int
    compute_instance: int = 0
    memory: tuple[int, int] = (1 << 30, 10 << 30)


@dataclass
class FakeGpu:
    """One card.

    ``answers`` by the name of the call after ``nvmlDeviceGet``; with arguments, a dict by the
    first of them. ``fields`` by field id: (value type, value) or an error. ``gpm`` by metric id.
    ``xids`` are told once each. ``memory`` used and total.
    """

    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    name: str = "NVIDIA H100 80GB HBM3"
    memory: tuple[int, int] = (20 << 30, 80 << 30)
    answers: dict[str, Any] = field(default_factory=dict)
    fields: dict[int, tuple[int, int | float] | Fails] = field(default_factory=dict)
    gpm: dict[int, float] | None = None
    slices: list[FakeSlice | None] = field(default_factory=list)
    split: bool = False
    xids: list[int] = field(default_factory=list)
    lost: bool = False


def training(**changes: Any) -> FakeGpu:
    """A card that trains: a full set of plausible answers, with some changed."""
    answers: dict[str, Any] = {
        "UtilizationRates": SimpleNamespace(gpu=97, memory=40),
        "ClockInfo": {1: 1755, 2: 2619},
        "MaxClockInfo": {1: 1980, 2: 2619},
        "CurrentClocksEventReasons": 0x4,
        "PowerUsage": 612_345,
        "EnforcedPowerLimit": 650_000,
        "PowerManagementDefaultLimit": 700_000,
        "TotalEnergyConsumption": 123_456_789_012,
        "Temperature": {0: 71},
        "TemperatureThreshold": {1: 89, 3: 87},
        "ViolationStatus": {
            0: SimpleNamespace(violationTime=5_000_000_000),
            1: SimpleNamespace(violationTime=0),
        },
        "CurrPcieLinkGeneration": 5,
        "MaxPcieLinkGeneration": 5,
        "CurrPcieLinkWidth": 16,
        "MaxPcieLinkWidth": 16,
        "TotalEccErrors": {0: 3, 1: 0},
        "RemappedRows": (1, 0, False, False),
        "PcieThroughput": {0: 1000, 1: 2000},
        "ComputeRunningProcesses": [SimpleNamespace(pid=4711, usedGpuMemory=18 << 30)],
        "ProcessUtilization": [SimpleNamespace(pid=4711, timeStamp=7, smUtil=95)],
        **changes.pop("answers", {}),
    }
    fields = {82: (1, 65), 197: (3, 10**12), 198: (3, 2 * 10**12), **changes.pop("fields", {})}
    gpm = {2: 81.5, 3: 43.0, 5: 37.25, 10: 55.0, 11: 0.0, 12: 9.0, 13: 1.0, 20: 10.0, 21: 2000.0}
    return FakeGpu(answers=answers, fields=fields, gpm=changes.pop("gpm", gpm), **changes)


class _Handle(NamedTuple):
    gpu: FakeGpu
    one: FakeSlice | None = None


def _errors() -> dict[str, type[Exception]]:
    class NVMLError(Exception):
        value = 999

        def __new__(cls, value: int = 999) -> NVMLError:
            made = super().__new__(kinds.get(value, cls) if cls is NVMLError else cls)
            made.value = value
            return made

        def __str__(self) -> str:
            return type(self).__name__

    kinds: dict[int, type[NVMLError]] = {}
    named: dict[str, type[Exception]] = {"NVMLError": NVMLError}
    for name, code in ERRORS.items():
        kinds[code] = type(f"NVMLError_{name}", (NVMLError,), {})
        named[f"NVMLError_{name}"] = kinds[code]
    return named


class c_nvmlGpmMetric_t(ctypes.Structure):  # noqa: N801  # NVML's name
    """As nvml.h lays it out, without the names of metrics."""

    _fields_ = (
        ("metricId", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_uint),
        ("value", ctypes.c_double),
    )


class c_nvmlGpmMetricsGet_t:  # noqa: N801  # NVML's name
    """Samples are Python objects here."""

    def __init__(self) -> None:
        self.version = self.numMetrics = 0
        self.sample1: Any = None
        self.sample2: Any = None
        self.metrics = (c_nvmlGpmMetric_t * 512)()


class _Fake:
    """What the module's functions close over."""

    def __init__(self, cards: Sequence[FakeGpu], starts: int) -> None:
        self.cards, self.starts = list(cards), starts
        self.errors = _errors()
        self.inits = self.lent = 0
        self.instances: list[int | None] = []

    def fail(self, code: int) -> Exception:
        return self.errors["NVMLError"](code)

    def init(self) -> None:
        if self.starts != SUCCESS:
            raise self.fail(self.starts)
        self.inits += 1

    def shutdown(self) -> None:
        if not self.inits:
            raise self.fail(UNINITIALIZED)
        self.inits -= 1

    def handle(self, index: int) -> _Handle:
        card = self.cards[index]
        if card.lost:
            raise self.fail(15)
        return _Handle(card)

    def ask(self, name: str) -> Callable[..., Any]:
        def call(handle: _Handle, *arguments: int) -> Any:
            if not self.inits:
                raise self.fail(UNINITIALIZED)
            if name in ("UUID", "Name"):
                return self.identity(name, handle)
            if handle.one is not None and name != "ComputeRunningProcesses":
                raise self.fail(NOT_SUPPORTED)
            answer = handle.gpu.answers.get(name, Fails(NOT_SUPPORTED))
            if isinstance(answer, dict):
                answer = answer.get(arguments[0], Fails(NOT_SUPPORTED))
            if isinstance(answer, Fails):
                raise self.fail(answer.code)
            return answer

        return call

    def identity(self, name: str, handle: _Handle) -> str:
        if name == "Name":
            return handle.gpu.name
        return handle.one.uuid if handle.one else handle.gpu.uuid

    def memory(self, handle: _Handle, version: int | None = None) -> SimpleNamespace:
        used, total = handle.one.memory if handle.one else handle.gpu.memory
        return SimpleNamespace(used=used, total=total, free=total - used, version=version)

    def field_values(self, handle: _Handle, wanted: Sequence[int]) -> list[SimpleNamespace]:
        return [
            self.field_value(handle.gpu.fields.get(one, Fails(NOT_SUPPORTED))) for one in wanted
        ]

    def field_value(self, answer: tuple[int, int | float] | Fails) -> SimpleNamespace:
        if isinstance(answer, Fails):
            return SimpleNamespace(nvmlReturn=answer.code, valueType=0, value=None)
        members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal")
        value = SimpleNamespace(**{members[answer[0]]: answer[1]})
        return SimpleNamespace(nvmlReturn=SUCCESS, valueType=answer[0], value=value)

    def mig_handle(self, handle: _Handle, index: int) -> _Handle:
        one = handle.gpu.slices[index]
        if one is None:
            raise self.fail(NOT_FOUND)
        return _Handle(handle.gpu, one)

    def sample(self) -> SimpleNamespace:
        self.lent += 1
        return SimpleNamespace(gpu=None)

    def give_back(self, sample: object) -> None:
        del sample
        self.lent -= 1

    def take(self, handle: _Handle, sample: SimpleNamespace) -> None:
        self.take_mig(handle, None, sample)

    def take_mig(self, handle: _Handle, instance: int | None, sample: SimpleNamespace) -> None:
        self.instances.append(instance)
        sample.gpu = handle.gpu

    def metrics(self, asked: c_nvmlGpmMetricsGet_t) -> c_nvmlGpmMetricsGet_t:
        told = asked.sample2.gpu.gpm
        for metric in asked.metrics[: asked.numMetrics]:
            metric.nvmlReturn = SUCCESS if metric.metricId in told else NOT_SUPPORTED
            metric.value = told.get(metric.metricId, 0.0)
        return asked

    def wait(self, events: list[FakeGpu], timeout_ms: int) -> SimpleNamespace:
        del timeout_ms
        if not events or not events[0].xids:
            raise self.fail(TIMEOUT)
        return SimpleNamespace(eventData=events[0].xids.pop(0), eventType=8)

    def register(self, handle: _Handle, kinds: int, events: list[FakeGpu]) -> None:
        del kinds
        events.append(handle.gpu)

    def events(self) -> list[FakeGpu]:
        self.lent += 1
        return []


def module(cards: Sequence[FakeGpu] = (), *, starts: int = SUCCESS) -> ModuleType:
    """A module to be used in place of ``pynvml``.

    Args:
        cards: in NVML's order.
        starts: the error that ``nvmlInit`` ends with (12: no library, 9: no driver).

    Returns:
        The module; its ``fake.inits`` and ``fake.lent`` count what was not given back.
    """
    fake = _Fake(cards, starts)
    made = ModuleType("pynvml")
    functions: dict[str, Any] = {
        "nvmlInit": fake.init,
        "nvmlShutdown": fake.shutdown,
        "nvmlSystemGetDriverVersion": lambda: "570.00",
        "nvmlDeviceGetCount": lambda: len(fake.cards),
        "nvmlDeviceGetHandleByIndex": fake.handle,
        "nvmlDeviceGetMemoryInfo": fake.memory,
        "nvmlDeviceGetFieldValues": fake.field_values,
        "nvmlDeviceGetMigMode": lambda handle: [int(handle.gpu.split)] * 2,
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: len(handle.gpu.slices),
        "nvmlDeviceGetMigDeviceHandleByIndex": fake.mig_handle,
        "nvmlDeviceGetGpuInstanceId": lambda handle: handle.one.gpu_instance,
        "nvmlDeviceGetComputeInstanceId": lambda handle: handle.one.compute_instance,
        "nvmlGpmQueryDeviceSupport": lambda handle: SimpleNamespace(
            isSupportedDevice=int(handle.gpu.gpm is not None)
        ),
        "nvmlGpmSampleAlloc": fake.sample,
        "nvmlGpmSampleFree": fake.give_back,
        "nvmlGpmSampleGet": fake.take,
        "nvmlGpmMigSampleGet": fake.take_mig,
        "nvmlGpmMetricsGet": fake.metrics,
        "nvmlEventSetCreate": fake.events,
        "nvmlDeviceRegisterEvents": fake.register,
        "nvmlEventSetWait_v2": fake.wait,
        "nvmlEventSetFree": fake.give_back,
        "c_nvmlGpmMetricsGet_t": c_nvmlGpmMetricsGet_t,
        **{f"nvmlDeviceGet{name}": fake.ask(name) for name in ANSWERED},
    }
    made.__dict__.update({**CONSTANTS, **fake.errors, **functions, "fake": fake})
    return made
