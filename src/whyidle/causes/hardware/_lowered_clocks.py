"""How far, for how long and why the clocks of a process's GPUs were lowered while it worked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyidle.analysis.telemetry_window import TelemetryWindow


@dataclass(frozen=True, slots=True)
class LoweredClocks:
    """One GPU. ``share`` of reads under load with any of the reasons; ``slower`` is what a clock at
    its maximum would save of a kernel bound by it, mean over these reads (0-1)."""

    gpu: str
    share: float
    slower: float
    reads: int


BUSY = 0.5
"""an idle GPU lowers its clocks by design: the load must be at least this"""


def find_lowered(
    outside: TelemetryWindow, gpu: str, reasons: int, unless: int = 0
) -> LoweredClocks | None:
    """None without reads of clocks, maximum and reasons, or without load."""
    bits = outside.values_read("clock_reasons", gpu)
    clock, top = (
        outside.values_read("clock_sm_mhz", gpu),
        outside.mean_value("clock_sm_max_mhz", gpu),
    )
    busy = outside.mean_value("busy_ratio", gpu)
    if not len(bits) or len(bits) != len(clock) or not top or busy is None or busy < BUSY:
        return None
    told = bits.astype(np.int64)
    held = (told & reasons != 0) & (told & unless == 0)
    slower = float(np.mean(np.clip(1.0 - clock[held] / top, 0.0, 1.0))) if held.any() else 0.0
    return LoweredClocks(gpu, float(held.mean()), slower, len(bits))


def find_worst(outside: TelemetryWindow, reasons: int, unless: int = 0) -> LoweredClocks | None:
    """The GPU of the process that loses most."""
    found = [
        one for gpu in outside.own_gpus if (one := find_lowered(outside, gpu, reasons, unless))
    ]
    return max(found, key=lambda one: one.share * one.slower, default=None)


def bound_by_clock(outside: TelemetryWindow, gpu: str, otherwise: float) -> float:
    """Share of a GPU's work that is as fast as its clock, most probably: all but the time that its
    memory needs for what it moves, whose clock is its own. ``otherwise`` where no driver tells."""
    moving, busy = (
        outside.mean_value("dram_active_ratio", gpu),
        outside.mean_value("busy_ratio", gpu),
    )
    if moving is None or not busy:
        return otherwise
    return 1.0 - min(moving / busy, 1.0)
