"""What a job holds in memory at most, with a fix and without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.told import Told


class Held(NamedTuple):
    """Bytes at most: of the host, resident, what all processes that train hold together (their
    loader's workers, which share pages with them, left out); and of the fullest device, by tensors.
    None where any of them did not tell."""

    host: int | None
    device: int | None


def held(arms: Sequence[Ran]) -> Held:
    """The most that any of these arms held."""
    each = [_processes(ran) for ran in arms]
    hosts = _every([one.memory_bytes for one in told] for told in each)
    devices = _every([one.device_peak for one in told] for told in each)
    return Held(
        max(map(sum, hosts)) if hosts else None,
        max(map(max, devices)) if devices else None,
    )


def _processes(ran: Ran) -> Sequence[Told]:
    return [*ran.ranks.values()] or ([] if ran.told is None else [ran.told])


def _every(arms: Iterable[Sequence[int | None]]) -> list[list[int]]:
    """What the processes of each arm told; nothing where one of them did not, for a part is no
    whole."""
    found = list(arms)
    known = [[one for one in told if one is not None] for told in found]
    whole = all(told and len(told) == len(own) for told, own in zip(found, known, strict=True))
    return known if whole else []
