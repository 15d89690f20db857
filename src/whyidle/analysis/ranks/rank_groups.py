"""Groups of ranks by what their names tell: node, pipeline stage, data-, tensor- and
expert-parallel index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from whyidle.analysis.facts import Facts

_NAMES: Final = (
    ("node", re.compile(r"(?<![a-z])(?:node|host)[-_]?(\d{1,6})", re.I)),
    ("stage", re.compile(r"(?<![a-z])(?:pp|stage|pipeline)[-_]?(?:rank[-_]?)?(\d{1,6})", re.I)),
    ("replica", re.compile(r"(?<![a-z])(?:dp|replica)[-_]?(?:rank[-_]?)?(\d{1,6})", re.I)),
    ("tensor", re.compile(r"(?<![a-z])tp[-_]?(?:rank[-_]?)?(\d{1,6})", re.I)),
    ("expert", re.compile(r"(?<![a-z])ep[-_]?(?:rank[-_]?)?(\d{1,6})", re.I)),
)
"""spelled as Megatron-LM, DeepSpeed, SGLang and people name files: ``pp0_tp1``, ``stage-3``"""


def groups_of(ranks: Sequence[Facts]) -> dict[str, dict[str, list[int]]]:
    """Return the positions of the ranks by kind of group and by group; only kinds that divide all
    ranks into several groups, not all of one rank."""
    places = [_place_of(facts) for facts in ranks]
    kinds = dict.fromkeys(kind for place in places for kind in place)
    groups: dict[str, dict[str, list[int]]] = {}
    for kind in kinds:
        members: dict[str, list[int]] = {}
        for index, place in enumerate(places):
            members.setdefault(place.get(kind, ""), []).append(index)
        if "" not in members and 1 < len(members) < len(ranks):
            names = sorted(members, key=lambda x: (int(x), "") if x.isdigit() else (-1, x))
            groups[kind] = {name: members[name] for name in names}
    return groups


def _place_of(facts: Facts) -> dict[str, str]:
    name = "/".join(facts.timeline.source.path.replace("!", "/").split("/")[-2:])
    place = {kind: match[1] for kind, form in _NAMES if (match := form.search(name))}
    hostname = facts.timeline.hostname
    return {**place, "node": hostname} if hostname else place
