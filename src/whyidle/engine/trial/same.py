"""Every rank of every treated arm, held against the same rank of the untreated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.numbers import Check, Untreated, compare
from whyidle.model.diagnosis import Consent


def untreated(bases: Sequence[Ran]) -> dict[int, Untreated]:
    """What each rank of the untreated arms told, of two at most."""
    again = bases[1].ranks if len(bases) > 1 else {}
    return {rank: Untreated(told, again.get(rank)) for rank, told in bases[0].ranks.items()}


def beside(known: Mapping[int, Untreated], ran: Ran) -> dict[int, Untreated]:
    """The same with a further untreated run, whose seeds or whose rounding were other ones."""
    return {
        rank: one if (told := ran.ranks.get(rank)) is None
        else replace(one, swayed=(*one.swayed, told)) if ran.swayed
        else replace(one, other=told)
        for rank, one in known.items()
    }  # fmt: skip


def worst(
    consent: Consent, known: Mapping[int, Untreated], treats: Sequence[Ran], *, redrawn: bool
) -> Check:
    """The first check that does not hold, or else that of the first rank."""
    checks = [
        _of(rank, consent, one, ran, redrawn=redrawn)
        for ran in treats
        for rank, one in known.items()
    ]
    broken = (check for check in checks if not check.holds)
    return next(broken, checks[0] if checks else Check(False, "nobody told a loss"))


def _of(rank: int, consent: Consent, one: Untreated, ran: Ran, *, redrawn: bool) -> Check:
    told = ran.ranks.get(rank)
    if told is None:
        return Check(False, f"rank {rank} told nothing")
    check = compare(consent, one, told, redrawn=redrawn)
    several = not check.holds and len(ran.ranks) > 1
    return Check(False, f"rank {rank}: {check.told}") if several else check
