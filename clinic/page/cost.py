"""What watching costs, and how long all of it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from clinic.card import Mode
from clinic.page.tables import beside
from clinic.score import Score
from clinic.sittings import Sittings
from clinic.wording import fine, percent, signed

MOST_S = 7200.0
"""that the whole suite may take on two cores"""


def _held(seconds: float, missing: int) -> str:
    """What the time says of the target, which is for all cases."""
    if missing and seconds <= MOST_S:
        return f"not told yet, {missing} cases did not run"
    return "met" if seconds <= MOST_S else "**missed**"


def _took(took: Sittings | None, found: Score, missing: int) -> Iterator[str]:
    """Of the whole, on the wall: the minutes of cases that ran side by side overlap."""
    if took is None:
        spent = found.seconds
        if not spent.untold:
            whole = spent.watching + spent.timing
            said = _held(whole, missing)
            yield f"What stands here took {_minutes(whole)} minutes; asked of the whole suite are"
            yield f"at most 120: {said}."
        return
    said = _held(took.active_s, missing)
    sat = "one sitting" if took.count == 1 else f"{took.count} sittings"
    yield f"**All that stands here ran in {_minutes(took.active_s)} minutes** by the clock, in"
    yield f"{sat}; pauses, waiting for a turn and what was broken off are left out. Asked of the"
    yield f"whole suite are at most 120 on two cores: {said}."
    if took.at_once > 1:
        yield f"Up to {took.at_once} emulated cases ran side by side, those whose host is idle for"
        yield "most of a step; every other ran alone."
    else:
        yield "Every case ran alone."


def cost(
    found: Score, modes: Mapping[Mode, Score], took: Sittings | None, missing: int
) -> Iterator[str]:
    """What watching cost the jobs and the machine, and how long everything ran."""
    yield from ("## Cost", "")
    rows: list[tuple[str, Callable[[Score], str]]] = [
        ("slower under watch than alone, median over cases", lambda one: signed(one.overhead)),
        ("runs of one and the same job differ by, median", lambda one: fine(one.noise)),
        ("CPU of watching, as the product tells", lambda one: percent(one.overhead_ratio, 2)),
        ("minutes of watching", lambda one: _minutes(one.seconds.watching)),
        ("minutes of timing cures", lambda one: _minutes(one.seconds.timing)),
        ("cases whose cures were not timed, or told no seconds", lambda o: str(o.seconds.untold)),
    ]
    yield from beside(rows, found, modes)
    yield "Runs of a few seconds scatter by more than watching costs; `performance.md` has the"
    yield "careful number."
    yield from (*_took(took, found, missing), "")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}"
