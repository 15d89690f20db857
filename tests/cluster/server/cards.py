"""Stand-in cards."""

from __future__ import annotations

from types import SimpleNamespace

from emulator.fake_nvml import FakeGpu, training


def card(busy: int) -> FakeGpu:
    answers = {
        "UtilizationRates": SimpleNamespace(gpu=busy, memory=0),
        "ComputeRunningProcesses": [],
    }
    return training(answers=answers, memory=(0, 80 << 30), gpm=None)
