"""What NVML says limits what the training thread's waits may cost. Kernels are not visible from
outside: a GPU may work while the thread that feeds it waits, so no wait costs more than the time in
which the GPU was idle."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
import numpy as np

from whyidle.diagnosis.low_evidence import DOUBTFUL
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Attribution, Diagnosis, Finding, Predicted
from whyidle.model.live.telemetry import Telemetry

BUSY: Final = 0.85
"""a GPU that is busy for a larger share of the time waits too little to be called starved, by the
threshold of 15 % for that verdict"""


def mean_busy(telemetry: Telemetry | None, pids: Collection[int]) -> float | None:
    """Share of the look in which any kernel ran on the GPUs whose memory the processes hold; None
    where NVML does not tell."""
    if telemetry is None:
        return None
    holders = (subject.partition(".pid") for subject in telemetry.series_of("memory_used_bytes"))
    held = {gpu for gpu, _, pid in holders if pid.isdigit() and int(pid) in pids}
    series = telemetry.series_of("busy_ratio")
    means = [float(np.mean(series[gpu].value)) for gpu in held if gpu in series]
    return sum(means) / len(means) if means else None


def limit_by_gpu(diagnosis: Diagnosis, busy: float | None) -> Diagnosis:
    """Return the diagnosis of a training thread as that of a job whose GPU was ``busy``."""
    idle = 1.0 - (busy or 0.0)
    device = msgspec.structs.replace(diagnosis.device, kind="cuda", name=None)
    findings = [_limit_finding(finding, idle) for finding in diagnosis.findings]
    verdict = diagnosis.verdict
    if busy is None:
        headline = f"Whether the GPU waits is not known without NVML. {verdict.headline}"
        verdict = msgspec.structs.replace(verdict, state="inconclusive", headline=headline)
    elif busy > BUSY:
        headline = (
            f"The GPU was busy {busy:.0%} of the observed time; what its kernels do is not "
            f"visible from outside"
        )
        verdict = msgspec.structs.replace(
            verdict, state="inconclusive", headline=headline, bound=None, cause=None
        )
    else:
        headline = f"The GPU was idle {idle:.0%} of the look. {verdict.headline}"
        verdict = msgspec.structs.replace(verdict, headline=headline)
    return msgspec.structs.replace(
        diagnosis,
        device=device,
        findings=findings,
        verdict=verdict,
        attribution=_limit_shares(diagnosis.attribution, busy),
        utilization=msgspec.structs.replace(diagnosis.utilization, busy=busy, gpu_util=busy),
    )


def _limit_shares(shares: Attribution, busy: float | None) -> Attribution:
    """The GPU's work by NVML, and its idle time in the proportion of the thread's waits."""
    if busy is None:
        return Attribution(**{bucket: float(bucket == "unknown") for bucket in BUCKETS})
    waits = {b: getattr(shares, b) for b in BUCKETS if b not in ("compute", "unknown")}
    scale = min(1.0, (1.0 - busy) / max(sum(waits.values()), 1e-9))
    limited = {bucket: share * scale for bucket, share in waits.items()}
    rest = max(0.0, 1.0 - busy - sum(limited.values()))
    return Attribution(**limited, compute=1.0 - rest - sum(limited.values()), unknown=rest)


def _limit_finding(finding: Finding, idle: float) -> Finding:
    lost = msgspec.structs.replace(
        finding.lost, low=min(finding.lost.low, idle), high=min(finding.lost.high, idle)
    )
    fixes = [
        msgspec.structs.replace(fix, predicted=_limit_gain(fix.predicted, idle))
        for fix in finding.fixes
    ]
    confidence = min(finding.confidence, DOUBTFUL)
    return msgspec.structs.replace(
        finding, lost=lost, fixes=fixes, removal=None, confidence=confidence
    )


def _limit_gain(predicted: Predicted | None, idle: float) -> Predicted | None:
    if predicted is None:
        return None
    most = 1.0 / max(1.0 - idle, 0.01)
    bounds = (predicted.low, predicted.speedup, predicted.high)
    low, speedup, high = (min(value, most) for value in bounds)
    return msgspec.structs.replace(predicted, low=low, speedup=speedup, high=high)
