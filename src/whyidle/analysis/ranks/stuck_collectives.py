"""Which rank the others wait for in a collective, by the dumps of their flight recorders."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from whyidle.model.diagnosis import Place
from whyidle.model.state_records import Collective, FlightRecord

_NAMED = 4
"""ranks named individually, at most"""


class Stuck(NamedTuple):
    """A collective in which ranks wait: its ``number`` in the group, the count of those
    ``waiting``, a sentence, and places: where the late ranks were last, then where others wait."""

    number: int
    waiting: int
    sentence: str
    places: tuple[Place, ...]


History = dict[int, dict[int, Collective]]
"""rank -> number of a collective -> the collective"""


def find_stuck(records: Sequence[FlightRecord]) -> list[Stuck]:
    """The collectives that ranks have called and others not, or differently; most waiting first."""
    groups: dict[str, History] = defaultdict(dict)
    members: dict[str, set[int]] = defaultdict(set)
    for index, record in enumerate(records):
        rank = index if record.rank is None else record.rank
        for group in record.groups:
            groups[group.name][rank] = {one.number: one for one in group.collectives}
            members[group.name] |= {*group.members, rank}
    found = (_judge_group(name, ranks, members[name]) for name, ranks in groups.items())
    return sorted((one for one in found if one is not None), key=lambda one: -one.waiting)


def _judge_group(name: str, ranks: History, members: set[int]) -> Stuck | None:
    last = {rank: max(listed, default=0) for rank, listed in ranks.items()}
    behind = min(last.values())
    pending = [r for r, listed in ranks.items() if listed and listed[last[r]].state != "completed"]
    late = [rank for rank, number in last.items() if number == behind]
    if behind < max(last.values()) and len(late) < len(ranks):
        number = behind + 1
        waiting = [rank for rank in ranks if number in ranks[rank]]
        return _make_stuck(name, number, late, ranks, waiting) if waiting else None
    if mismatch := _find_mismatch(name, ranks, pending):
        return mismatch
    silent = sorted(members - set(ranks))
    if pending and silent:
        return _silent_ranks(name, behind, silent, ranks, pending)
    return None


def _make_stuck(
    name: str, number: int, late: list[int], ranks: History, waiting: list[int]
) -> Stuck:
    awaited = Counter(ranks[rank][number].name for rank in waiting).most_common(1)[0][0]
    before = [ranks[rank].get(number - 1) for rank in late]
    was = next((one for one in before if one is not None), None)
    been = f"; the last that it called is {was.name} {was.number}" if was else ""
    sentence = (
        f"{_name_ranks(late)} not called {awaited} {number} of group {name}, in which "
        f"{len(waiting)} of {len(ranks)} ranks wait{been}"
    )
    places = [_at_rank(one, rank) for one, rank in zip(before, late, strict=True)]
    places.append(_at_rank(ranks[waiting[0]][number], waiting[0]))
    return Stuck(number, len(waiting), sentence, tuple(p for p in places if p is not None))


def _find_mismatch(name: str, ranks: History, pending: list[int]) -> Stuck | None:
    """Ranks that call different collectives as the same one wait for ever."""
    numbers = sorted({max(ranks[rank]) for rank in pending})
    for number in numbers:
        calls = {rank: listed[number] for rank, listed in ranks.items() if number in listed}
        kinds = Counter(one.name for one in calls.values())
        if len(kinds) < 2:
            continue
        usual, _ = kinds.most_common(1)[0]
        odd = [rank for rank, one in calls.items() if one.name != usual]
        sentence = (
            f"{_name_ranks(odd)} called {calls[odd[0]].name} as collective {number} of group "
            f"{name}, and the others {usual}: none of them can complete"
        )
        places = [_at_rank(calls[rank], rank) for rank in odd]
        return Stuck(number, len(calls), sentence, tuple(p for p in places if p is not None))
    return None


def _silent_ranks(
    name: str, number: int, silent: list[int], ranks: History, pending: list[int]
) -> Stuck:
    awaited = ranks[pending[0]][max(ranks[pending[0]])]
    sentence = (
        f"{len(pending)} ranks wait in {awaited.name} {awaited.number} of group {name}; "
        f"{_name_ranks(silent)} written no dump: look there first"
    )
    place = _at_rank(awaited, pending[0])
    return Stuck(number, len(pending), sentence, (place,) if place else ())


def _name_ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]} has"
    shown = ", ".join(str(rank) for rank in sorted(ranks)[:_NAMED])
    more = f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
    return f"Ranks {shown}{more} have"


def _at_rank(collective: Collective | None, rank: int) -> Place | None:
    if collective is None or collective.place is None:
        return None
    place = collective.place
    return Place(file=place.file, line=place.line, function=place.function, rank=rank)
