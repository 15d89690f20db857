"""The fixed subset that every check of the project runs, and the score it may not fall below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from clinic.score import Pair, marks, score
from clinic.wording import percent

FLOOR = Path(__file__).with_name("floor.toml")


class Floor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cases, the least shares that are right, and the most alarms and seconds."""

    cases: list[str]
    top1: float
    bucket: float
    alarms: float
    seconds: float


def read() -> Floor:
    """What is recorded."""
    return msgspec.toml.decode(FLOOR.read_bytes(), type=Floor)


def hold(pairs: Sequence[Pair], seconds: float) -> int:
    """Whether the subset is as good as recorded: an exit status."""
    bound, found = read(), score(pairs)
    table = found.tables[0]
    done = [(case, outcome) for case, outcome in pairs if not outcome.error]
    alarms = sum(bool(mark.alarm) for mark in marks("whyidle", done))
    broken = [
        f"{words} {percent(value)} is below {percent(least)}"
        for words, value, least in (
            ("top-1", table.top1, bound.top1),
            ("bucket", table.bucket, bound.bucket),
        )
        if value is None or value < least
    ]
    if alarms > bound.alarms:
        broken.append(f"{alarms} false alarms, {bound.alarms:.0f} allowed")
    if found.errors:
        broken.append(f"{found.errors} cases failed")
    if seconds > bound.seconds:
        broken.append(f"it took {seconds:.0f} s, {bound.seconds:.0f} allowed")
    print(f"fixed subset: {seconds:.0f} s; " + ("; ".join(broken) or "the floor holds"))
    return 1 if broken else 0
