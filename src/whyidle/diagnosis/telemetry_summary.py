"""What telemetry adds to a diagnosis: GPU utilization and the cost of watching."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whyidle.analysis.device.model_flops_utilization import model_flops_utilization
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.ranks.job import Job
from whyidle.model.diagnosis import Utilization

HOST_SOURCE, GPU_SOURCE = "cpu_user_s", "busy_ratio"
"""signals that represent their source: if they are missing, the source was not read"""
SHORT_NS = 1_000_000_000


def summarize_utilization(job: Job, seen: Job) -> Utilization:
    """Summarize utilization from ``seen``, the recordings of the device, and from telemetry."""
    busy = [facts.busy_ratio for facts in seen.ranks if facts.busy_ratio is not None]
    peaks = [
        int(f.timeline.memory.allocated.max()) for f in seen.ranks if len(f.timeline.memory.time)
    ]
    gpus = _gpu_windows(job)

    def mean(signal: str) -> float | None:
        return _mean_value(gpus, lambda outside, gpu: outside.mean_value(signal, gpu))

    return Utilization(
        busy=float(np.mean(busy)) if busy else None,
        gpu_util=mean("busy_ratio"),
        sm_active=mean("sm_active_ratio"),
        sm_occupancy=mean("sm_occupancy_ratio"),
        tensor_active=mean("tensor_active_ratio"),
        dram_active=mean("dram_active_ratio"),
        mfu=model_flops_utilization(seen.lead_rank),
        power_w=mean("power_w"),
        memory_peak_bytes=max(peaks, default=_peak_memory(gpus)),
        energy_j_per_step=_energy_per_step(job, gpus),
        host_memory_peak_bytes=_peak_host_memory(job),
    )


def _gpu_windows(job: Job) -> dict[str, TelemetryWindow]:
    """The telemetry window of each GPU of a recorded rank. The key contains the recording, since
    ranks on other hosts have GPUs of the same name."""
    found: dict[str, TelemetryWindow] = {}
    for facts in job.ranks:
        outside = facts.telemetry
        if outside is not None:
            for gpu in outside.own_gpus:
                found.setdefault(f"{id(outside.telemetry)}:{gpu}", outside)
    return found


def _mean_value(
    gpus: dict[str, TelemetryWindow], value: Callable[[TelemetryWindow, str], float | None]
) -> float | None:
    values = [value(outside, name.partition(":")[2]) for name, outside in gpus.items()]
    known = [value_of_gpu for value_of_gpu in values if value_of_gpu is not None]
    return float(np.mean(known)) if known else None


def _peak_memory(gpus: dict[str, TelemetryWindow]) -> int | None:
    most = [
        outside.highest_value("memory_used_bytes", n.partition(":")[2])
        for n, outside in gpus.items()
    ]
    known = [int(one) for one in most if one is not None]
    return max(known, default=None)


def _peak_host_memory(job: Job) -> int | None:
    most = [
        facts.telemetry.highest_value("memory_resident_bytes", f"pid{facts.timeline.process.pid}")
        for facts in job.ranks
        if facts.telemetry is not None
    ]
    return max((int(one) for one in most if one is not None), default=None)


def _energy_per_step(job: Job, gpus: dict[str, TelemetryWindow]) -> float | None:
    """Joules of all GPUs per step, extrapolated from the part of the window with readings."""
    each = _mean_value(gpus, lambda outside, gpu: outside.counter_rate("energy_j", gpu))
    if each is None or job.lead_rank.steps.found_by is None:
        return None
    return each * len(gpus) * job.lead_rank.step_s


def own_cost(job: Job) -> float | None:
    """CPU time of the sampler and the monitor per second of the run; None if not measured."""
    samplers = [facts.timeline.process.sampler for facts in job.ranks]
    sampled = [s.cpu_s / s.elapsed_s for s in samplers if s.cpu_s is not None and s.elapsed_s]
    outside = job.lead_rank.telemetry
    watched = outside.counter_rate("monitor_cpu_s") if outside else None
    each = max(sampled, default=None)
    known = [cost for cost in (each, watched) if cost is not None]
    return round(float(sum(known)), 6) if known else None


def notes_on_sources(job: Job) -> list[str]:
    """Note which telemetry is missing, and why."""
    outside = job.lead_rank.telemetry
    if outside is None:
        return []
    gone = outside.telemetry.missing
    lead = job.lead_rank
    is_short = lead.has_no_steps and lead.steps.window[1] - lead.steps.window[0] < SHORT_NS
    read = {
        "the host": bool(outside.job_processes) or is_short,
        "GPUs": bool(outside.gpus) or not _wants_gpus(job),
    }
    signals = {"the host": HOST_SOURCE, "GPUs": GPU_SOURCE}
    notes = []
    for what, known in read.items():
        if not known and (absent := gone.get(signals[what])) is not None:
            reason = absent.reason.rstrip(".")
            how = f"; {absent.how}" if absent.how else ""
            notes.append(f"{what} could not be read: {reason}{how}")
    return notes


def _wants_gpus(job: Job) -> bool:
    """Whether the job could use GPUs, so that missing GPU telemetry needs a note."""
    process = job.lead_rank.timeline.process
    return bool(process.cuda_built or process.gpus) or process.device == "cuda"
