"""What to ask for next time, from what one job used: only what its readings bear out."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

from whyidle.cluster.report.advice import COVERED
from whyidle.model.documents.fleet import UNUSED_BUSY, FleetJobRow

SPARE: Final = 1.2
"""memory to ask for, of the peak: sampling misses short peaks"""
MUCH: Final = 2.0
"""times what was used, from which less is worth asking for: less than that is a fair reserve"""


def suggest_request(job: FleetJobRow) -> list[str]:
    """Changes of the request, the costliest resource first. A job that failed or still runs has not
    shown what it needs."""
    if job.state != "completed":
        return []
    return [text for text in (_gpus(job), _cores(job), _memory(job), _time(job)) if text]


def _gpus(job: FleetJobRow) -> str | None:
    if job.coverage < COVERED or job.busy_peak is None:
        return None
    if job.busy_peak < UNUSED_BUSY:
        return "no GPU (none ran a kernel)"
    if job.unused_gpus and job.unused_gpus < job.gpus:
        left = job.gpus - job.unused_gpus
        words = f"{left} GPU{'s' * (left > 1)} instead of {job.gpus}"
        return f"{words} ({job.unused_gpus} never ran a kernel)"
    return None


def _cores(job: FleetJobRow) -> str | None:
    if not job.cpus or job.cores_used is None:
        return None
    starved = job.account.gpu_ms["starved"] > job.account.gpu_ms["useful"]
    if starved and job.cores_used >= 0.9 * job.cpus:
        return f"more than {job.cpus:.0f} cores (all were in use while the GPUs waited)"
    return None  # fewer: the mean hides the peaks in which a loader needs them


def _memory(job: FleetJobRow) -> str | None:
    asked, used = job.host_memory_bytes, job.host_memory_used_bytes
    if not asked or not used or asked < MUCH * used:
        return None
    enough = math.ceil(used * SPARE / 1e9)
    if enough > asked / MUCH / 1e9:
        return None
    return f"{enough} GB of memory instead of {asked / 1e9:.0f} (the peak and a fifth)"


def _time(job: FleetJobRow) -> str | None:
    took = job_seconds(job)
    if not took or not job.limit_s or job.limit_s < MUCH * took:
        return None
    minutes = math.ceil(took * 1.5 / 60)  # machines and data differ from run to run
    text = f"{minutes // 60}:{minutes % 60:02}:00"
    return f"--time={text} (it may start earlier, in gaps that long jobs leave)"


def job_seconds(job: FleetJobRow) -> float | None:
    """How long the job ran; None while it does."""
    if job.start is None or job.end is None:
        return None
    # Python 3.10 does not read the Z
    start, end = (datetime.fromisoformat(text.rstrip("Z")) for text in (job.start, job.end))
    return (end - start).total_seconds()
