"""How much, how long and why the clocks of a process's GPUs were lowered under load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyidle.analysis.host.telemetry_window import TelemetryWindow


@dataclass(frozen=True, slots=True)
class LoweredClocks:
    """Lowered clocks of one GPU."""

    gpu: str
    share: float  # of the reads under load with one of the reasons
    slower: float  # mean time that the maximum clock would save in kernels bound by it (0-1)
    reads: int


BUSY = 0.5
"""least load: an idle GPU lowers its clocks by design"""


def find_lowered(
    outside: TelemetryWindow, gpu: str, reasons: int, unless: int = 0
) -> LoweredClocks | None:
    """The GPU's lowered clocks; None if clocks or reasons were not read, or without load."""
    bits = outside.values_read("clock_reasons", gpu)
    clock, top = (
        outside.values_read("clock_sm_mhz", gpu),
        outside.mean_value("clock_sm_max_mhz", gpu),
    )
    busy = outside.mean_value("busy_ratio", gpu)
    if not len(bits) or len(bits) != len(clock) or not top or busy is None or busy < BUSY:
        return None
    flags = bits.astype(np.int64)
    lowered = (flags & reasons != 0) & (flags & unless == 0)
    slower = np.clip(1.0 - clock[lowered] / top, 0.0, 1.0).mean() if lowered.any() else 0.0
    return LoweredClocks(gpu, float(lowered.mean()), float(slower), len(bits))


def find_worst(outside: TelemetryWindow, reasons: int, unless: int = 0) -> LoweredClocks | None:
    """The process's GPU that loses most time."""
    lowered = (find_lowered(outside, gpu, reasons, unless) for gpu in outside.own_gpus)
    return max(filter(None, lowered), key=lambda gpu: gpu.share * gpu.slower, default=None)


def bound_by_clock(outside: TelemetryWindow, gpu: str, otherwise: float) -> float:
    """Expected share of a GPU's work that scales with its clock: time without activity of memory,
    which has its own clock. ``otherwise`` if this was not measured."""
    moving = outside.mean_value("dram_active_ratio", gpu)
    busy = outside.mean_value("busy_ratio", gpu)
    return 1.0 - min(moving / busy, 1.0) if moving is not None and busy else otherwise
