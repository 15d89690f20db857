"""Looks at a machine as series of metrics: the names that every publisher uses.

Units are base units and part of the name, as Prometheus recommends. Labels of a GPU are those of
NVIDIA's dcgm-exporter, so that the two can be joined. Process ids, command lines and paths are
never labels: they are unbounded, and may hold secrets.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from whyidle.model.buckets import BUCKETS
from whyidle.model.documents.watch_document import STATES, WatchedGpu, WatchedJob, WatchedMachine

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with its samples, (labels, value) each."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)


_GPU: Final[dict[str, tuple[str, str]]] = {
    "busy": ("whyidle_gpu_busy_ratio", "Time that any kernel ran."),
    "sm_active": ("whyidle_gpu_sm_active_ratio", "Multiprocessors that had a warp."),
    "tensor_active": ("whyidle_gpu_tensor_active_ratio", "Time that tensor cores worked."),
    "dram_active": ("whyidle_gpu_dram_active_ratio", "Bandwidth of device memory in use."),
    "memory_used_bytes": ("whyidle_gpu_memory_used_bytes", "Device memory in use."),
    "memory_bytes": ("whyidle_gpu_memory_size_bytes", "Device memory."),
    "power_w": ("whyidle_gpu_power_watts", "Power drawn."),
    "temperature_c": ("whyidle_gpu_temperature_celsius", "Temperature of the GPU."),
    "energy_j": ("whyidle_gpu_energy_joules_total", "Energy used since the driver was loaded."),
    "xid_events": ("whyidle_gpu_xid_events_total", "Critical errors (XID) since watching began."),
}
"""field of a watched GPU -> metric"""
_TENANT: Final = ("namespace", "pod", "container", "slurm_job")


class SeriesBuilder:
    """Turns looks into metrics. It integrates step time by place over looks: the eight places of a
    run add up to the time that it has been watched."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, float]] = {}
        self._samples: dict[str, float] = {}
        self._before: dict[str, tuple[float, int]] = {}

    def add_look(self, machine: WatchedMachine) -> list[Metric]:
        """The metrics after one more look."""
        now = time.monotonic()
        for job in machine.jobs:
            if job.steps is not None:
                self._integrate(job, now)
        jobs = {job.key: job for job in machine.jobs}
        metrics = _gpu_metrics(machine, jobs)
        metrics += self._run_metrics([j for j in machine.jobs if j.steps], machine)
        return [metric for metric in metrics if metric.samples]

    def _integrate(self, job: WatchedJob, now: float) -> None:
        steps = job.steps
        if steps is None:
            return
        before, count = self._before.get(job.key, (now, steps.count))
        self._before[job.key] = (now, steps.count)
        places = self._places.setdefault(job.key, dict.fromkeys(BUCKETS, 0.0))
        shares = steps.shares or {"unknown": 1.0}
        for place, share in shares.items():
            places[place] += (now - before) * share
        if steps.samples_per_s and steps.step_s:
            made = (steps.count - count) * steps.samples_per_s * steps.step_s
            self._samples[job.key] = self._samples.get(job.key, 0.0) + max(0.0, made)

    def _run_metrics(self, jobs: list[WatchedJob], machine: WatchedMachine) -> list[Metric]:
        host = machine.host.name
        labels = {job.key: _run_labels(job, host) for job in jobs}
        taken = datetime.fromisoformat(machine.time).timestamp()
        known = [(job, job.steps) for job in jobs if job.steps is not None]
        return [
            Metric("whyidle_run_active", "gauge", "Whether the run is being watched.",
                   [(labels[job.key], 1.0) for job in jobs]),
            Metric("whyidle_run_info", "gauge", "What is known of a run; always 1.",
                   [({**labels[j.key], "state": j.state,
                      "cause": (j.reason.cause or "") if j.reason else ""}, 1.0) for j in jobs]),
            Metric("whyidle_steps_total", "counter", "Optimizer steps.",
                   [(labels[job.key], float(steps.count)) for job, steps in known]),
            Metric("whyidle_step_time_seconds_total", "counter",
                   "Watched time by place; the eight places add up to it.",
                   [({**labels[key], "place": place}, seconds)
                    for key, places in self._places.items() if key in labels
                    for place, seconds in places.items()]),
            Metric("whyidle_last_step_timestamp_seconds", "gauge", "When the last step ended.",
                   [(labels[job.key], taken - steps.last_step_s)
                    for job, steps in known if steps.last_step_s is not None]),
            Metric("whyidle_since_step_seconds", "gauge", "Time since the last step ended.",
                   [(labels[job.key], steps.last_step_s)
                    for job, steps in known if steps.last_step_s is not None]),
            Metric("whyidle_run_training", "gauge",
                   "Whether the run makes steps: 0 while it starts or evaluates.",
                   [(labels[job.key], float(steps.phase is None)) for job, steps in known]),
            Metric("whyidle_run_memory_bytes", "gauge", "Resident memory of the run's processes.",
                   [(labels[job.key], float(job.memory_bytes))
                    for job in jobs if job.memory_bytes is not None]),
            Metric("whyidle_rank_skew_ratio", "gauge",
                   "Share of the step in which ranks wait for the latest one.",
                   [(labels[job.key], steps.rank_skew)
                    for job, steps in known if steps.rank_skew is not None]),
            Metric("whyidle_step_time_to_last_runs_ratio", "gauge",
                   "Step time, of that of the slowest of the last runs of the same command.",
                   [(labels[job.key], steps.to_last_runs)
                    for job, steps in known if steps.to_last_runs is not None]),
            Metric("whyidle_samples_total", "counter", "Samples trained on, estimated.",
                   [(labels[key], made) for key, made in self._samples.items() if key in labels]),
            Metric("whyidle_overhead_ratio", "gauge", "What watching costs the job.",
                   [(labels[job.key], steps.overhead)
                    for job, steps in known if steps.overhead is not None]),
            Metric("whyidle_finding_lost_ratio", "gauge", "Share of the step that a cause costs.",
                   [({**labels[job.key], "cause": one.cause, "severity": one.severity,
                      "edge": edge}, value)
                    for job, steps in known for one in steps.findings
                    for edge, value in (("low", one.low), ("high", one.high))]),
        ]  # fmt: skip


def _gpu_metrics(machine: WatchedMachine, jobs: Mapping[str, WatchedJob]) -> list[Metric]:
    host = machine.host.name
    labels = {gpu.gpu: gpu_labels(gpu, host, jobs) for gpu in machine.gpus}
    metrics = []
    for attribute, (name, text) in _GPU.items():
        known = ((gpu, getattr(gpu, attribute)) for gpu in machine.gpus)
        samples = [(labels[gpu.gpu], float(value)) for gpu, value in known if value is not None]
        kind: Literal["gauge", "counter"] = "counter" if name.endswith("_total") else "gauge"
        metrics.append(Metric(name, kind, text, samples))
    held = [
        ({**labels[gpu.gpu], "reason": reason}, seconds)
        for gpu in machine.gpus
        for reason, seconds in gpu.held_back_s.items()
    ]
    text = "Time that clocks were lowered."
    metrics.append(Metric("whyidle_gpu_held_back_seconds_total", "counter", text, held))
    states = [
        ({**labels[gpu.gpu], "state": state}, float(gpu.state == state))
        for gpu in machine.gpus
        for state in STATES
    ]
    metrics.append(Metric("whyidle_gpu_state", "gauge", "The state of a GPU: 0 or 1.", states))
    return [*metrics, *_derived_metrics(machine, labels)]


def _derived_metrics(machine: WatchedMachine, labels: Mapping[str, Labels]) -> list[Metric]:
    used = [
        (labels[gpu.gpu], float(bool(gpu.jobs) and not gpu.state.startswith("idle")))
        for gpu in machine.gpus
    ]
    full = [
        (labels[gpu.gpu], gpu.memory_used_bytes / gpu.memory_bytes)
        for gpu in machine.gpus
        if gpu.memory_used_bytes is not None and gpu.memory_bytes
    ]
    return [
        Metric("whyidle_gpu_used", "gauge", "Whether a job holds the GPU and uses it.", used),
        Metric("whyidle_gpu_memory_used_ratio", "gauge", "Device memory in use.", full),
    ]


def gpu_labels(gpu: WatchedGpu, host: str, jobs: Mapping[str, WatchedJob]) -> Labels:
    """Labels in dcgm-exporter's spelling, but for ``model_name``: promtool objects to the camel
    case of ``modelName``."""
    card, _, part = gpu.gpu.removeprefix("gpu").partition(".mig")
    labels = {
        "gpu": card,
        "UUID": gpu.card or gpu.uuid or "",
        "pci_bus_id": gpu.pci or "",
        "hostname": host,
        "model_name": gpu.name or "",
        "GPU_I_ID": part,
    }
    for key in gpu.jobs:
        if key in jobs:
            labels |= _tenant_labels(jobs[key])
    return {name: value for name, value in labels.items() if value}


def _run_labels(job: WatchedJob, host: str) -> Labels:
    run = job.steps.run if job.steps else job.key
    return {"run": run, "hostname": host, **_tenant_labels(job)}


def _tenant_labels(job: WatchedJob) -> Labels:
    known = job.tenant.labels
    return {name: known[name] for name in _TENANT if known.get(name)}


def stage_keys(job: WatchedJob) -> dict[str, float]:
    """A job's figures for experiment trackers, by key: ``whyidle/STAGE/PLACE_share`` and so on."""
    steps = job.steps
    if steps is None:
        return {}
    stage = f"whyidle/{steps.phase or 'train'}"
    keys = {f"{stage}/{place}_share": share for place, share in (steps.shares or {}).items()}
    if steps.step_s is not None:
        keys[f"{stage}/step_s"] = steps.step_s
    if steps.samples_per_s is not None:
        keys[f"{stage}/samples_per_s"] = steps.samples_per_s
    if steps.overhead is not None:
        keys["whyidle/overhead_ratio"] = steps.overhead
    return keys


def gpu_keys(gpus: Iterable[WatchedGpu]) -> dict[str, float]:
    """Figures of a job's GPUs that trackers do not have themselves."""
    keys = {}
    for gpu in gpus:
        name = gpu.gpu.removeprefix("gpu")
        for attribute in ("sm_active", "tensor_active", "dram_active"):
            if (value := getattr(gpu, attribute)) is not None:
                keys[f"whyidle/gpu/{name}/{attribute}"] = value
    return keys
