"""GPU Performance Monitoring (GPM): activity of the multiprocessors between two reads (Hopper and
later). NVML requires at least 100 ms between the two samples of a metric. Units are those of
nvml.h: percent, and MiB/s for traffic."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Final

from whyidle.machine.sources._gpu_signals import parse_number, parse_percent
from whyidle.model.live.telemetry import Absent, Reading

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
