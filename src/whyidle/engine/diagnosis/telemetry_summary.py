"""What telemetry adds to a diagnosis: how well the GPUs were used, and what watching has cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whyidle.analysis.job import Job
from whyidle.analysis.model_flops_utilization import model_flops_utilization
from whyidle.analysis.telemetry_window import TelemetryWindow
from whyidle.model.diagnosis import Utilization
from whyidle.model.process_facts import SamplerFacts
from whyidle.model.telemetry import Absent

HOST_SOURCE, GPU_SOURCE = "cpu_user_s", "busy_ratio"
"""signals whose absence stands for that of the whole source"""
SHORT_NS = 1_000_000_000


def summarize_utilization(job: Job, seen: Job) -> Utilization:
    """From the recordings that have ``seen`` the device, and from telemetry of the watched job."""
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
    )


def _gpu_windows(job: Job) -> dict[str, TelemetryWindow]:
    """Every GPU of a recorded rank, once, with the window of that rank. Ranks of other hosts have
    other recordings, so a GPU is told apart by both."""
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
    read = [value(outside, name.partition(":")[2]) for name, outside in gpus.items()]
    known = [one for one in read if one is not None]
    return float(np.mean(known)) if known else None


def _peak_memory(gpus: dict[str, TelemetryWindow]) -> int | None:
    """Most memory in use on a device, by whomever."""
    most = [
        outside.highest_value("memory_used_bytes", n.partition(":")[2])
        for n, outside in gpus.items()
    ]
    known = [int(one) for one in most if one is not None]
    return max(known, default=None)


def _energy_per_step(job: Job, gpus: dict[str, TelemetryWindow]) -> float | None:
    """Joules of all GPUs per step. The rate stands for the part of the window that was not read."""
    each = _mean_value(gpus, lambda outside, gpu: outside.counter_rate("energy_j", gpu))
    if each is None or job.lead_rank.steps.found_by is None:
        return None
    return each * len(gpus) * job.lead_rank.step_s


def own_cost(job: Job) -> float | None:
    """Our own CPU time per second of the run, all that was counted: the sampler in each process,
    and the monitor beside them. None where nobody counted."""
    sampled = [_sampler_cost(facts.timeline.process.sampler) for facts in job.ranks]
    outside = job.lead_rank.telemetry
    watched = outside.counter_rate("monitor_cpu_s") if outside else None
    each = max((cost for cost in sampled if cost is not None), default=None)
    known = [cost for cost in (each, watched) if cost is not None]
    return round(float(sum(known)), 6) if known else None


def _sampler_cost(told: SamplerFacts) -> float | None:
    """CPU of the thread that looks and writes, per second."""
    spent, elapsed = told.cpu_s, told.elapsed_s
    return spent / elapsed if spent is not None and elapsed else None


def notes_on_sources(job: Job) -> list[str]:
    """What of the sources was not to be had, and why; short."""
    outside = job.lead_rank.telemetry
    if outside is None:
        return []
    gone = outside.telemetry.missing
    read = {
        "the host": bool(outside.job_processes) or _is_too_short(job),
        "GPUs": bool(outside.gpus) or not _wants_gpus(job),
    }
    signals = {"the host": HOST_SOURCE, "GPUs": GPU_SOURCE}
    missing = [what for what, known in read.items() if not known and signals[what] in gone]
    return [
        f"{what} could not be read: {_explain_missing(gone[signals[what]])}" for what in missing
    ]


def _is_too_short(job: Job) -> bool:
    """Whether a command ended before there was time to read anything of it."""
    window = job.lead_rank.steps.window
    return job.lead_rank.has_no_steps and window[1] - window[0] < SHORT_NS


def _wants_gpus(job: Job) -> bool:
    """Whether anything speaks for GPUs that should have been read. A PyTorch that is built without
    them runs on a machine without: that one cannot read what is not there is no news."""
    told = job.lead_rank.timeline.process
    return bool(told.cuda_built or told.gpus) or told.device == "cuda"


def _explain_missing(absent: Absent) -> str:
    reason = absent.reason.rstrip(".")
    return f"{reason}; {absent.how}" if absent.how else reason
