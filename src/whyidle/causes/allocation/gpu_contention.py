"""Other processes compute on the same GPU."""

from __future__ import annotations

from whyidle.analysis.device.gpu_work import work_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import Proof, cause

LEAST_SHARE = 0.05
"""share of the time with kernels of other processes; a display or a monitor stays below"""


@cause(
    "Other processes compute on the same GPU",
    bucket="compute",
    needs=("gpu_telemetry", "steps"),
    watched=("gpu_telemetry", "stepless"),
)
def gpu_contention(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Processes outside this job run kernels on its GPU.

    Why it costs
    ------------
    Without MPS or MIG, kernels of several processes take turns. With MPS, they share execution
    units, caches and bandwidth. Both make the job's own kernels take longer.

    How it is detected
    ------------------
    NVML reports for what share of the time each process runs kernels. For processes that were never
    in this job's process tree, the sum must be at least 5 %. The upper bound is all of that time,
    the lower bound a fifth, because concurrent kernels slow each other down less.

    What looks alike
    ----------------
    In a container, the driver's process ids differ from the job's. If no id on the GPU belongs to
    the job, nothing is reported. Processes that only hold memory do not count.

    What to do
    ----------
    Use the GPU exclusively (exclusive process mode, another placement), or divide it with MIG.

    References
    ----------
    NVIDIA, "Multi-Process Service"; NVML, ``nvmlDeviceGetProcessUtilization``.
    """
    telemetry = facts.telemetry
    if telemetry is None:
        return None
    others = {gpu: _measure_other_processes(telemetry, gpu) for gpu in telemetry.own_gpus}
    gpu = max(others, key=lambda name: others[name][1], default="")
    if not gpu or others[gpu][1] < LEAST_SHARE:
        return None
    count, share = others[gpu]
    work = work_of(facts, gpu)
    high = min(share, work.share)
    low = high / 5
    return Proof(
        headline=f"{count} other process{'es compute' if count > 1 else ' computes'} on the same "
        f"GPU {share:.0%} of the time",
        predicted=predict_removal(low, high, "the time in which other processes' kernels run"),
        evidence=(
            make_evidence("time with kernels of other processes", share, "ratio", source="NVML"),
            make_evidence("other processes with kernels", count, None, source="NVML"),
        ),
        confidence=0.7,
        bucket=work.bucket,
    )


def _measure_other_processes(telemetry: TelemetryWindow, gpu: str) -> tuple[int, float]:
    """Number of processes outside the job, and the share of the time of their kernels; zero where
    the job's own processes cannot be identified."""
    pids = telemetry.memory_by_process(gpu)
    if not telemetry.job_processes & set(pids):
        return 0, 0.0
    busy = [
        telemetry.mean_value("process_busy_ratio", f"{gpu}.pid{pid}") or 0.0
        for pid in pids
        if pid not in telemetry.job_processes
    ]
    running = [share for share in busy if share > 0]
    return len(running), min(1.0, sum(running))
