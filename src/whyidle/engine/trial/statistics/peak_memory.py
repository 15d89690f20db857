"""What a job holds in memory at most, with a fix and without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.process_report import ProcessReport


class PeakMemory(NamedTuple):
    """Bytes at most: of the host, resident, what all processes that train hold together (their
    loader's workers, which share pages with them, left out); and of the fullest device, by tensors.
    None where any of them did not tell."""

    host: int | None
    device: int | None


def peak_memory(arms: Sequence[ArmResult]) -> PeakMemory:
    """The most that any of these arms held."""
    each = [_process_reports(ran) for ran in arms]
    hosts = _reports_by_arm([one.memory_bytes for one in told] for told in each)
    devices = _reports_by_arm([one.device_peak for one in told] for told in each)
    return PeakMemory(
        max(map(sum, hosts)) if hosts else None, max(map(max, devices)) if devices else None
    )


def _process_reports(ran: ArmResult) -> Sequence[ProcessReport]:
    return [*ran.ranks.values()] or ([] if ran.told is None else [ran.told])


def _reports_by_arm(arms: Iterable[Sequence[int | None]]) -> list[list[int]]:
    """What the processes of each arm told; nothing where one of them did not, for a part is no
    whole."""
    found = list(arms)
    known = [[one for one in told if one is not None] for told in found]
    whole = all(told and len(told) == len(own) for told, own in zip(found, known, strict=True))
    return known if whole else []
