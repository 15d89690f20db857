"""Dumps of NCCL's flight recorder (``TORCH_NCCL_TRACE_BUFFER_SIZE``): the last collectives of one
rank, with their state."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whyidle.model.state_records import Collective, FlightRecord, GroupHistory
from whyidle.readers._events.trace_header import rank_in_names, to_natural
from whyidle.readers._state.stack_places import find_place, to_count

_LAST_NUMBER = re.compile(r"(\d{1,6})(?:\.\w+)*$")
_STATES = ("scheduled", "started", "completed")


def read_record(path: Path, document: Mapping[str, Any]) -> FlightRecord:
    """Interpret a decoded dump; what is not as PyTorch writes it is left out."""
    entries: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in document["entries"]:
        if isinstance(entry, dict) and not entry.get("is_p2p"):
            entries[_group_of(entry)].append(entry)
    config = document.get("pg_config")
    members = _members_by_name(config if isinstance(config, dict) else {})
    groups = [
        GroupHistory(name, members.get(name, ()), _collectives(listed))
        for name, listed in sorted(entries.items())
    ]
    rank = to_natural(document.get("rank"))
    return FlightRecord(str(path), _rank_in(path) if rank is None else rank, tuple(groups))


def _rank_in(path: Path) -> int | None:
    """The rank in the name of a file: ``nccl_trace_rank_3``, or a number at its end."""
    named, _ = rank_in_names((path.name,))
    match = _LAST_NUMBER.search(path.name)
    return int(match[1]) if named is None and match else named


def _group_of(entry: Mapping[str, Any]) -> str:
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)) and group:
        return str(group[0])
    return str(entry.get("pg_id", 0) if group is None else group)


def _members_by_name(config: Mapping[Any, Any]) -> dict[str, tuple[int, ...]]:
    members = {}
    for key, group in config.items():
        if isinstance(group, dict):
            listed = re.findall(r"\d{1,9}", str(group.get("ranks", "")))
            members[str(group.get("name", key))] = tuple(sorted({int(rank) for rank in listed}))
    return members


def _collectives(entries: list[Mapping[str, Any]]) -> tuple[Collective, ...]:
    found = {}
    for entry in entries:
        state = str(entry.get("state"))
        number = to_count(entry.get("collective_seq_id", entry.get("seq_id")))
        found[number] = Collective(
            number=number,
            name=str(entry.get("profiling_name") or "a collective").removeprefix("nccl:"),
            sizes=str(entry.get("input_sizes", "")),
            state=state if state in _STATES else "scheduled",
            place=find_place(entry.get("frames")),
            created_ns=to_count(entry.get("time_created_ns")),
        )
    return tuple(found[number] for number in sorted(found))
