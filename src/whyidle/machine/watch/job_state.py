"""The state of a job and of a GPU, and the reason that is shown for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle import catalog
from whyidle.machine.watch.gpu_history import GpuHistory
from whyidle.model.documents.fleet import HELD_BYTES
from whyidle.model.documents.watch_document import STATES, GpuState, Reason, WatchedJob
from whyidle.model.live.job_news import JobNews
from whyidle.model.live.suspicion import JobView

STARVED_BUSY: Final = 0.5
"""below half, a GPU waits for most of the time: where TensorBoard's plugin and Princeton's Job
Defense Shield warn"""
UNUSED_S: Final = 30.0
"""a GPU of a working job without a kernel for this long is not used by it: pauses for evaluation
and checkpoints keep it busy or are shorter"""
_GRAVE: Final[dict[str, int]] = {
    state: rank for rank, state in enumerate(("stalled", "idle-held", "throttled", "starved"))
}


def suspect(view: JobView) -> list[tuple[GpuState, Reason]]:
    """Everything that is suspected of a job, the gravest state first."""
    found: list[tuple[GpuState, Reason]] = []
    for one in catalog.load_suspicions().values():
        if (suspected := one.judge(view)) is not None:
            reason = Reason(
                text=suspected.text, proven=False, cause=one.cause or one.id, proof=suspected.proof
            )
            found.append((one.state, reason))
    return sorted(found, key=lambda pair: _GRAVE.get(pair[0], len(_GRAVE)))


def judge_job(
    view: JobView, news: JobNews | None, suspected: Sequence[tuple[GpuState, Reason]]
) -> tuple[GpuState, Reason | None]:
    """A job's state and its reason: proven by its recording, else suspected, else by utilization.
    A job that stands still is stalled whatever its last steps were."""
    first = suspected[0] if suspected else None
    stands_still = first is not None and first[0] in ("stalled", "idle-held")
    if news is not None and news.state is not None and not stands_still:
        return news.state, news.reason
    if first is not None:
        return first
    if view.gpu_busy is not None and view.gpu_busy < STARVED_BUSY:
        return _judge_busy(view.gpu_busy)
    return "active", None


def _judge_busy(busy: float) -> tuple[GpuState, Reason | None]:
    if busy >= STARVED_BUSY:
        return "active", None
    text = f"the GPU is busy {busy:.0%}, for a reason not visible from outside the process"
    return "starved", Reason(text=text, proven=False, proof="start it with whyidle run")


def judge_gpu(
    history: GpuHistory,
    jobs: Sequence[WatchedJob],
    reserved_by: str | None,
    *,
    works_elsewhere: bool = False,
) -> tuple[GpuState, Reason | None]:
    """A GPU's state, by its own figures and the gravest of its jobs. ``works_elsewhere``: they have
    kernels on other GPUs, so that what is suspected of them is not said of one without."""
    latest = history.latest
    if not jobs:
        return _judge_unclaimed(latest.get("memory_used_bytes") or 0, history, reserved_by)
    job = min(jobs, key=lambda one: _GRAVE.get(one.state, len(STATES)))
    busy = history.highest("busy_ratio")
    if busy is None and job.reason is None:
        text = "utilization is not measured here; NVML has none of MIG slices"
        return job.state, Reason(text=text, proven=False, proof="GPM, on Hopper and later, or DCGM")
    if busy == 0 and works_elsewhere and history.span_s < UNUSED_S:
        return "active", None
    unused = works_elsewhere or job.state in ("active", "starved")
    if busy == 0 and unused and history.span_s >= UNUSED_S:
        text = f"its job has not run a kernel here for {history.span_s:.0f} s"
        return "idle-held", Reason(
            text=text, proven=False, cause="idle-allocated-gpu", proof="print its visible devices"
        )
    mean = history.mean("busy_ratio")
    if job.user is None and mean is not None and mean < STARVED_BUSY:
        text = f"the GPU is busy {mean:.0%}; its process cannot be seen from here"
        proof = "watch outside the container, or as root"
        return "starved", Reason(text=text, proven=False, proof=proof)
    if job.reason is not None and job.reason.cause is None and not job.reason.proven and mean:
        return _judge_busy(mean)
    return job.state, job.reason


def _judge_unclaimed(
    used: float, history: GpuHistory, reserved_by: str | None
) -> tuple[GpuState, Reason | None]:
    if history.mean("busy_ratio"):
        return "active", Reason(
            text="its processes cannot be seen from here", proven=False,
            proof="watch outside the container, or as root",
        )  # fmt: skip
    if reserved_by is not None:
        return "idle-reserved", Reason(
            text=f"{reserved_by} reserves it, and has no process on it", proven=True
        )
    if used > HELD_BYTES:
        return "idle-held", Reason(
            text=f"{used / 2**30:.0f} GiB are held by a process that cannot be seen from here",
            proven=False, proof="watch outside the container, or as root",
        )  # fmt: skip
    return "free", None
