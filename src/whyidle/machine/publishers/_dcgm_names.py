"""The metrics of NVIDIA's dcgm-exporter, by the names, units and labels of its default page.

For machines without one, whose dashboards and rules ask for these names: beside a dcgm-exporter
every sum would be doubled, so they are published on request only.
"""

from __future__ import annotations

from typing import Final, Literal

from whyidle.model.documents.watch_document import WatchedGpu, WatchedMachine
from whyidle.model.live.metric_series import Metric, gpu_labels

_MIB: Final = 1 << 20
_NAMES: Final[dict[str, tuple[str, float, str]]] = {
    "temperature_c": ("DCGM_FI_DEV_GPU_TEMP", 1.0, "GPU temperature (in C)."),
    "power_w": ("DCGM_FI_DEV_POWER_USAGE", 1.0, "Power draw (in W)."),
    "energy_j": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1000.0, "Energy since boot (in mJ)."),
    "busy": ("DCGM_FI_DEV_GPU_UTIL", 100.0, "GPU utilization (in %)."),
    "memory_used_bytes": ("DCGM_FI_DEV_FB_USED", 1 / _MIB, "Framebuffer memory used (in MiB)."),
    "xid_last": ("DCGM_FI_DEV_XID_ERRORS", 1.0, "Value of the last XID error."),
    "sm_active": ("DCGM_FI_PROF_SM_ACTIVE", 1.0, "Ratio of cycles an SM has a warp."),
    "tensor_active": ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1.0, "Ratio of cycles of tensor pipes."),
    "dram_active": ("DCGM_FI_PROF_DRAM_ACTIVE", 1.0, "Ratio of cycles of device memory."),
}
"""field of a watched GPU -> name, factor to its unit, help"""


def dcgm_metrics(machine: WatchedMachine) -> list[Metric]:
    """One look under dcgm-exporter's names. What was not measured is absent; a MIG slice has no
    utilization of the whole card."""
    metrics = []
    labels = {gpu.gpu: _labels_of(gpu, machine) for gpu in machine.gpus}
    for attribute, (name, factor, text) in _NAMES.items():
        known = [(gpu, getattr(gpu, attribute)) for gpu in machine.gpus]
        samples = [
            (labels[gpu.gpu], round(value * factor, 6))
            for gpu, value in known
            if value is not None and not (attribute == "busy" and gpu.card)
        ]
        kind: Literal["gauge", "counter"] = "counter" if attribute == "energy_j" else "gauge"
        metrics.append(Metric(name, kind, text, samples))
    free = [
        (labels[gpu.gpu], (gpu.memory_bytes - gpu.memory_used_bytes) / _MIB)
        for gpu in machine.gpus
        if gpu.memory_bytes is not None and gpu.memory_used_bytes is not None
    ]
    metrics.append(
        Metric("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", free)
    )
    return [metric for metric in metrics if metric.samples]


def _labels_of(gpu: WatchedGpu, machine: WatchedMachine) -> dict[str, str]:
    jobs = {job.key: job for job in machine.jobs}
    labels = gpu_labels(gpu, machine.host.name, jobs)
    renamed = {"hostname": "Hostname", "model_name": "modelName"}
    labels = {renamed.get(name, name): text for name, text in labels.items()}
    labels |= {"device": f"nvidia{labels['gpu']}"} if "gpu" in labels else {}
    return labels | ({"DCGM_FI_DRIVER_VERSION": machine.driver} if machine.driver else {})
