"""Clocks that are held back."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "The GPU's clocks are held back",
    state="throttled",
    needs=("gpu_busy",),
    least_s=1.0,
    cause="thermal-throttle",
)
def clock_throttling(view: JobView) -> Suspected | None:
    """The driver lowers the clocks of a working GPU because of heat, or below the card's rating.

    Cooling is insufficient, a power supply brakes the card, or an administrator has set a lower
    power limit than the card's own.

    Detected: Clocks were lowered for heat in at least 20 % of the time, the hardware slows the card
    down, or power holds it back under a limit below 90 % of the card's default, on a GPU that
    works. Below 20 % the loss is within a few percent of the clock.

    Looks alike: A card at its own power limit is held back, too: that is how it is meant to work.

    Sources: nvml.h, nvmlClocksEventReason*; NVML nvmlDeviceGetViolationStatus
    """
    if not view.gpu_busy:
        return None
    reasons = []
    if (view.held_by_heat or 0.0) >= 0.2:
        reasons.append(f"held back by heat {view.held_by_heat:.0%} of the time")
    if view.hardware_slowdown:
        reasons.append("slowed down by the hardware")
    limit = view.power_limit_ratio
    if limit is not None and limit < 0.9 and (view.held_by_power or 0.0) >= 0.2:
        reasons.append(f"held by a power limit of {limit:.0%} of the default")
    if not reasons:
        return None
    return Suspected(
        text=f"likely throttled: {', '.join(reasons)}",
        proof="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
    )
