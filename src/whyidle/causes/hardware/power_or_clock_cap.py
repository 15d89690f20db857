"""A limit of the GPU's power or clocks."""

from __future__ import annotations

from whyidle.analysis.device.gpu_work import work_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.causes.hardware._lowered_clocks import LoweredClocks, bound_by_clock, find_worst
from whyidle.model.cause import LEAST_SHARE, Proof, cause

POWER, APPLICATION, BRAKE = 0x004, 0x002, 0x080
HEAT = 0x020 | 0x040
LOWERED = 0.95
"""a power limit below this share of the card's default was set on purpose"""
USUAL = 0.5
"""share of the work that scales with the clock, where memory was not measured"""
CUBIC = 3.0
"""power scales with the clock and the square of the voltage, which scales with the clock"""


@cause(
    "The GPU's power or clocks are limited",
    bucket="compute",
    needs=("gpu_telemetry", "steps"),
    watched=("gpu_telemetry", "stepless"),
)
def power_or_clock_cap(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A power limit below the default, application clocks, or a power brake lowers the clocks under
    load.

    Why it costs
    ------------
    Compute-bound kernels take longer in proportion to the clock.

    How it is detected
    ------------------
    NVML gives such a reason while kernels run. A software power cap counts only if the limit is
    below 95 % of the default. The upper bound assumes the maximum clock (P11). The expected gain
    assumes the clock at the default limit (power grows with the cube of the clock) for work that is
    not memory-bound. The lower bound is zero, because a busy GPU does not hold its maximum clock.

    What looks alike
    ----------------
    A software power cap at the default limit is normal. A lower limit may be intended, to save
    energy.

    What to do
    ----------
    Ask whether the limit is intended. ``nvidia-smi -pl`` sets the limit, ``-rac`` resets the
    clocks.

    References
    ----------
    NVIDIA, NVML, "nvmlClocksEventReasons"; Chung et al., "Perseus: Removing Energy Bloat from Large
    Model Training", SOSP 2024 (limits on purpose).
    """
    outside = facts.telemetry
    if outside is None:
        return None
    limited = min((_power_limit_ratio(outside, gpu) for gpu in outside.own_gpus), default=1.0)
    reasons = APPLICATION | BRAKE | (POWER if limited < LOWERED else 0)
    lowered = find_worst(outside, reasons, unless=HEAT)
    if lowered is None:
        return None
    work = work_of(facts, lowered.gpu)
    high = lowered.share * lowered.slower * work.share
    if high < LEAST_SHARE:
        return None
    likely = _gain_without_limit(lowered, limited) * bound_by_clock(outside, lowered.gpu, USUAL)
    return Proof(
        headline=f"A limit keeps the GPU at {1 - lowered.slower:.0%} of its clock "
        f"{lowered.share:.0%} of the time",
        predicted=predict_removal(
            0.0, high, "P11: clocks at their maximum", lowered.share * likely * work.share
        ),
        evidence=(
            make_evidence(
                "time under a limit", lowered.share, "ratio", samples=lowered.reads, source="NVML"
            ),
            make_evidence("share of the clock", 1 - lowered.slower, "ratio", source="NVML"),
            make_evidence("power limit against the default", limited, "ratio", source="NVML"),
        ),
        confidence=0.6,
        bucket=work.bucket,
    )


def _gain_without_limit(lowered: LoweredClocks, limited: float) -> float:
    """Time saved by the expected clock without the limit: for a lowered power limit the clock that
    the default allows, otherwise the maximum."""
    allowed = 1.0 - limited ** (1.0 / CUBIC) if limited < LOWERED else 1.0
    return min(lowered.slower, allowed)


def _power_limit_ratio(outside: TelemetryWindow, gpu: str) -> float:
    """The current power limit as share of the default; 1 where it is unknown."""
    now = outside.mean_value("power_limit_w", gpu)
    default = outside.mean_value("power_limit_default_w", gpu)
    return now / default if now and default else 1.0
