"""Peak memory of a job, with and without a fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport


class PeakMemory(NamedTuple):
    """Peak memory, bytes; None if a process did not report it."""

    host: int | None
    """resident memory of all training processes, without loader workers, which share pages"""
    device: int | None  # tensors on the fullest device


def peak_memory(arms: Sequence[ArmResult]) -> PeakMemory:
    """The highest peak of these arms."""
    reports_by_arm = [_process_reports(arm) for arm in arms]
    hosts = _reports_by_arm([one.memory_bytes for one in reports] for reports in reports_by_arm)
    devices = _reports_by_arm([one.device_peak for one in reports] for reports in reports_by_arm)
    return PeakMemory(
        max(map(sum, hosts)) if hosts else None, max(map(max, devices)) if devices else None
    )


def _process_reports(arm: ArmResult) -> Sequence[ProcessReport]:
    return [*arm.ranks.values()] or ([] if arm.report is None else [arm.report])


def _reports_by_arm(arms: Iterable[Sequence[int | None]]) -> list[list[int]]:
    arms_list = list(arms)
    known = [[one for one in values if one is not None] for values in arms_list]
    whole = all(
        values and len(values) == len(numbers)
        for values, numbers in zip(arms_list, known, strict=True)
    )
    return known if whole else []
