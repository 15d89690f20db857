"""Other processes compute on the same GPU."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.gpu_work import work_of
from whyidle.analysis.telemetry_window import TelemetryWindow
from whyidle.model.cause import Proof, cause

LEAST_SHARE = 0.05
"""share of the time that others' kernels run; below it they are a display or a monitor"""


@cause(
    "Other processes compute on the same GPU",
    bucket="compute",
    needs=("gpu_telemetry", "steps"),
    watched=("gpu_telemetry", "stepless"),
)
def gpu_contention(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Processes that are not of this job run kernels on its GPU.

    Why it costs
    ------------
    Without MPS or MIG kernels of several processes take turns; with them they share units, caches
    and bandwidth. Either way the job's own kernels take longer.

    How it is detected
    ------------------
    NVML tells how much of the time each process's kernels ran. Ids that were never in this job's
    process tree, with together at least 5 % of the time. At best all of that time comes back;
    carefully a fifth of it, as kernels that run side by side cost each other less.

    What looks alike
    ----------------
    In a container the driver's process ids are others than the job's: where none of the ids on the
    GPU is one of ours, nothing is said. Processes that only hold memory are counted with none.

    What to do
    ----------
    Run alone on the GPU (exclusive process mode, another placement), or divide it by MIG.

    References
    ----------
    NVIDIA, "Multi-Process Service"; NVML, ``nvmlDeviceGetProcessUtilization``.
    """
    outside = facts.telemetry
    if outside is None:
        return None
    found = {gpu: find_other_processes(outside, gpu) for gpu in outside.own_gpus}
    gpu = max(found, key=lambda name: found[name][1], default="")
    if not gpu or found[gpu][1] < LEAST_SHARE:
        return None
    count, share = found[gpu]
    work = work_of(facts, gpu)
    high = min(share, work.share)
    low = high / 5
    return Proof(
        headline=f"{count} other process{'es compute' if count > 1 else ' computes'} on the same "
        f"GPU {share:.0%} of the time",
        low=low,
        high=high,
        predicted=predict_removal(low, high, "the time that others' kernels run"),
        evidence=(
            make_evidence(
                "time that kernels of other processes run", share, "ratio", source="NVML"
            ),
            make_evidence("other processes with kernels", count, None, source="NVML"),
        ),
        confidence=0.7,
        bucket=work.bucket,
    )


def find_other_processes(outside: TelemetryWindow, gpu: str) -> tuple[int, float]:
    """Processes that are not the job's, and the share of the time that their kernels ran; none
    where the job's own cannot be told from them."""
    pids = outside.memory_by_process(gpu)
    if not outside.job_processes & set(pids):
        return 0, 0.0
    busy = [
        outside.mean_value("process_busy_ratio", f"{gpu}.pid{pid}") or 0.0
        for pid in pids
        if pid not in outside.job_processes
    ]
    running = [share for share in busy if share > 0]
    return len(running), min(1.0, sum(running))
