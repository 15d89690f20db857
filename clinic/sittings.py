"""How long the machine was at it: runs side by side count once, pauses not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from clinic.outcome import Outcome, Span

APART_S = 600.0
"""nothing for so long: what comes after is another sitting"""


class Sittings(msgspec.Struct, frozen=True):
    """Seconds in which anything ran, in how many sittings, and how much ran at a time."""

    active_s: float
    count: int
    at_once: int


def sittings(outcomes: Iterable[Outcome]) -> Sittings | None:
    """Of all runs that the outcomes were made of; None where some do not tell when they were."""
    spans: list[Span] = []
    for outcome in outcomes:
        own = [outcome.span, *(gain.span for gain in outcome.gains.values())]
        if None in own:
            return None
        spans += {span for span in own if span}
    return _merged(sorted(spans)) if spans else None


def _merged(spans: Sequence[Span]) -> Sittings:
    active, count, until = 0.0, 0, float("-inf")
    for begin, end in spans:
        count += begin - until > APART_S
        active += max(0.0, end - max(begin, until))
        until = max(until, end)
    return Sittings(active, count, _most(spans))


def _most(spans: Sequence[Span]) -> int:
    """How many were under way at a time; one that ends as another begins is not beside it."""
    changes = sorted(
        [(begin, 1) for begin, _ in spans] + [(end, -1) for begin, end in spans if end > begin]
    )
    level = most = 0
    for _, change in changes:
        level += change
        most = max(most, level)
    return most
