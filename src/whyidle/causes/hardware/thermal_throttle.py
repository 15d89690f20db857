"""The GPU slows down because it is hot."""

from __future__ import annotations

from whyidle.analysis.device.gpu_work import work_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.causes.hardware._lowered_clocks import bound_by_clock, find_worst
from whyidle.model.cause import LEAST_SHARE, Proof, cause

HEAT = 0x020 | 0x040
"""software and hardware thermal slowdown, as nvml.h names the bits"""
CAREFUL, USUAL = 0.25, 0.625
"""share of the work that scales with the clock: at least, and where memory was not measured"""


@cause(
    "The GPU slows down because of heat",
    bucket="compute",
    needs=("gpu_telemetry", "steps"),
    watched=("gpu_telemetry", "stepless"),
)
def thermal_throttle(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The driver or the hardware lowers the clocks to keep the GPU or its memory from overheating.

    Why it costs
    ------------
    Compute-bound kernels take longer in proportion to the clock. A hardware slowdown halves the
    clock or worse. In a distributed job, all ranks wait for the hottest GPU.

    How it is detected
    ------------------
    NVML names a thermal reason while kernels run. The upper bound is the loss against the maximum
    clock, for the share of the step in which the GPU computes (P11). The expected gain leaves out
    time in which memory is active, if that was measured. The lower bound is a quarter of the upper,
    because memory-bound kernels gain nothing.

    What looks alike
    ----------------
    Low clocks of an idle GPU, a power limit (``power-or-clock-cap``) and application clocks have
    reasons of their own and do not count.

    What to do
    ----------
    Check cooling, dust and neighbouring cards. A slightly lower power limit avoids swings between
    full speed and slowdown. Move the job and report the node.

    References
    ----------
    NVIDIA, NVML, "nvmlClocksEventReasons".
    """
    outside = facts.telemetry
    lowered = find_worst(outside, HEAT) if outside else None
    if outside is None or lowered is None:
        return None
    work = work_of(facts, lowered.gpu)
    high = lowered.share * lowered.slower * work.share
    if high < LEAST_SHARE:
        return None
    likely = max(CAREFUL, bound_by_clock(outside, lowered.gpu, USUAL))
    hottest = outside.highest_value("temperature_c", lowered.gpu)
    return Proof(
        headline=f"Heat slows the GPU down to {1 - lowered.slower:.0%} of its clock "
        f"{lowered.share:.0%} of the time",
        predicted=predict_removal(
            high * CAREFUL, high, "P11: clocks at their maximum", high * likely
        ),
        evidence=(
            make_evidence("time with heat slowdown", lowered.share, "ratio", source="NVML"),
            make_evidence("share of the clock", 1 - lowered.slower, "ratio", source="NVML"),
            make_evidence("highest temperature read", hottest or 0.0, "°C", source="NVML"),
        ),
        confidence=0.8,
        bucket=work.bucket,
    )
