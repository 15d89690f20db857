"""Somebody limits the power or the clocks of the GPU."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.gpu_work import work_of
from whyidle.analysis.telemetry_window import TelemetryWindow
from whyidle.causes.hardware._lowered_clocks import LoweredClocks, bound_by_clock, find_worst
from whyidle.model.cause import Proof, cause

POWER, APPLICATION, BRAKE = 0x004, 0x002, 0x080
HEAT = 0x020 | 0x040
LOWERED = 0.95
"""a power limit below this share of the card's default was set by somebody"""
LEAST_SHARE = 0.01
USUAL = 0.5
"""share of the work that is as fast as the clock, where memory was not read"""
CUBIC = 3.0
"""power goes with the clock and the square of the voltage, which goes with the clock"""


@cause(
    "The GPU's power or clocks are limited",
    bucket="compute",
    needs=("gpu_telemetry", "steps"),
    watched=("gpu_telemetry", "stepless"),
)
def power_or_clock_cap(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A power limit below the card's default, application clocks, or the power brake of the chassis
    keeps the clocks down while the GPU works.

    Why it costs
    ------------
    Kernels bound by computing take longer in proportion to the clock.

    How it is detected
    ------------------
    Reads in which NVML gives such a reason while kernels run, and the clock in them against its
    maximum (P11). A software power cap counts only where the limit in force is under 95 % of the
    default. Even unlimited, a well-fed GPU does not hold its maximum clock, so the careful end is
    nothing. Expected is the clock that the default limit allows, the power being as its cube, for
    the work that does not wait for memory, where that was read.

    What looks alike
    ----------------
    A software power cap at the *default* limit is normal on a well-fed GPU. Limits may be there on
    purpose, to save energy: ask before calling it a fault.

    What to do
    ----------
    Ask the administrator whether the limit is meant; ``nvidia-smi -pl``, ``-rac``.

    References
    ----------
    NVIDIA, NVML, "nvmlClocksEventReasons"; Chung et al., "Perseus: Removing Energy Bloat from
    Large Model Training", SOSP 2024 (limits on purpose).
    """
    outside = facts.telemetry
    if outside is None:
        return None
    limited = min((_power_limit_ratio(outside, gpu) for gpu in outside.own_gpus), default=1.0)
    reasons = APPLICATION | BRAKE | (POWER if limited < LOWERED else 0)
    found = find_worst(outside, reasons, unless=HEAT)
    if found is None:
        return None
    work = work_of(facts, found.gpu)
    high = found.share * found.slower * work.share
    if high < LEAST_SHARE:
        return None
    likely = _gain_without_limit(found, limited) * bound_by_clock(outside, found.gpu, USUAL)
    return Proof(
        headline=f"A limit keeps the GPU at {1 - found.slower:.0%} of its clock {found.share:.0%} "
        "of the time",
        low=0.0,
        high=high,
        predicted=predict_removal(
            0.0, high, "P11: clocks at their maximum", found.share * likely * work.share
        ),
        evidence=(
            make_evidence(
                "time under a limit", found.share, "ratio", samples=found.reads, source="NVML"
            ),
            make_evidence(
                "clock then, against its maximum", 1 - found.slower, "ratio", source="NVML"
            ),
            make_evidence("power limit against the default", limited, "ratio", source="NVML"),
        ),
        confidence=0.6,
        bucket=work.bucket,
    )


def _gain_without_limit(found: LoweredClocks, limited: float) -> float:
    """What the clock that is likely without the limit saves of the time now: with a lowered limit
    of power what the default one allows, its maximum at most; else its maximum."""
    allowed = 1.0 - limited ** (1.0 / CUBIC) if limited < LOWERED else 1.0
    return min(found.slower, allowed)


def _power_limit_ratio(outside: TelemetryWindow, gpu: str) -> float:
    """The power limit in force, as share of the default; 1 where it is not known."""
    now, default = (
        outside.mean_value("power_limit_w", gpu),
        outside.mean_value("power_limit_default_w", gpu),
    )
    return now / default if now and default else 1.0
