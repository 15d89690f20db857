"""Graph breaks of a watched job whose device is the CPU, from what Dynamo said and from samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from whyidle.analysis import compilation
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import EMPTY
from whyidle.analysis.sampled_lines import sampled_stacks
from whyidle.analysis.source_places import frame_place, in_library
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which broken code is not worth a word"""
BETWEEN = (0.3, 0.7, 1.0)
"""share of the eager code between pieces that is saved (careful, expected, hopeful): some breaks
are there for a reason"""
AGAIN = (0.6, 0.9, 1.0)
"""share of compiling again that is saved, where it is for numbers that a break hands on"""
FUSED = (0.0, 0.1, 0.4)
"""share of the pieces' own work that one graph instead of several saves"""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the step: eager code between the pieces of broken functions, the pieces
    themselves with their backward passes, and compiling them again for what breaks hand on."""

    between: float
    pieces: float
    again: float


def graph_breaks(facts: Facts) -> Proof | None:
    """Breaks that Dynamo noted, with their lines; the cost from samples of the broken functions."""
    breaks = _list_breaks(facts)
    if not breaks:
        return None
    shares = _sample_shares(facts, {(place.file, place.function) for place, _, _ in breaks})
    costs = tuple(zip(BETWEEN, FUSED, AGAIN, strict=True))
    careful, expected, high = (
        b * shares.between + f * shares.pieces + a * shares.again for b, f, a in costs
    )
    if high < LEAST_SHARE:
        return None
    count = len(breaks)
    return Proof(
        headline=f"The compiled model is broken into pieces at {count} "
        f"place{'s' if count > 1 else ''}: {breaks[0][1]}",
        low=careful,
        high=high,
        predicted=from_gains((careful, expected, high), "P4: one graph instead of pieces"),
        evidence=_break_evidence(breaks, shares),
        confidence=0.7,
        where=tuple(place for place, _, _ in breaks[:3]),
        bucket=_choose_bucket(facts, shares),
    )


def _choose_bucket(facts: Facts, shares: Shares) -> Bucket:
    if shares.again > shares.between:
        return "interruption"
    return "compute" if facts.bucket_share("compute") >= shares.between else "host"


def _break_evidence(breaks: list[tuple[Place, str, int]], shares: Shares) -> tuple[Evidence, ...]:
    total = sum(count for _, _, count in breaks)
    eager = "eager code between the pieces, share of step"
    pieces = "compiled pieces of broken functions, share of step"
    return (
        make_evidence("graph breaks while compiling", total, None, source="torch._dynamo"),
        make_evidence(eager, shares.between, "ratio", source="samples"),
        make_evidence(pieces, shares.pieces, "ratio", source="samples"),
        make_evidence(
            "compiling again for numbers that breaks hand on, share of step",
            shares.again,
            "ratio",
            source="torch._dynamo",
        ),
        *(make_evidence("reason", text, None, source="torch._dynamo") for _, text, _ in breaks[:3]),
    )


def _list_breaks(facts: Facts) -> list[tuple[Place, str, int]]:
    """Place of the user's, reason and count of each break, the most frequent first. Breaks that
    PyTorch's own optimizers make on purpose are nobody's fault."""
    vocabulary = facts.timeline.vocabulary
    found: dict[tuple[str | None, int | None], tuple[Place, str, int]] = {}
    told = compilation.compiler_facts(facts)
    for one in told.graph_breaks if told else ():
        frames = [frame_place(text, facts.rank) for text in one.stack.split(";")]
        places = [place for place in frames if place is not None]
        own = next((place for place in places if not in_library(place)), None)
        if own is None or vocabulary.plays(Role.OPTIMIZER_FRAME, places[0].file or ""):
            continue
        resumed = vocabulary.parts(Role.RESUMED_FRAME, own.function or "")
        if resumed:
            own = Place(file=own.file, line=own.line, function=resumed["function"], rank=own.rank)
        key = (own.file, own.line)
        count = one.count + (found[key][2] if key in found else 0)
        found[key] = own, compilation.first_line(one.reason), count
    return sorted(found.values(), key=lambda item: -item[2])


def _sample_shares(facts: Facts, broken: set[tuple[str | None, str | None]]) -> Shares:
    """From all samples in scope that are not of compiling."""
    total: Counter[str] = Counter()
    for stack, time in sampled_stacks(facts, facts.scope - facts.time_of("interruption")).items():
        total[_sample_kind(stack, broken, facts.timeline.vocabulary.plays)] += time
    forward = total["piece"] + total["whole"]
    pieces = total["piece"] + total["backward"] * total["piece"] / max(forward, 1)
    length = max(facts.scope.total, 1)
    again = compilation.recompilations(facts)[0] if compilation.handed_on(facts) else EMPTY
    again_share = facts.share_of(facts.time_of("interruption") & again)
    return Shares(total["between"] / length, pieces / length, again_share)


def _sample_kind(
    stack: str, broken: set[tuple[str | None, str | None]], plays: Callable[[Role, str], bool]
) -> str:
    """What a sample shows: a compiled piece of a broken function, eager code between two, another
    compiled function, a compiled backward pass, or none of them."""
    compiled = plays(Role.COMPILED_FRAME, stack)
    if compiled and plays(Role.BACKWARD_FRAME, stack):
        return "backward"
    inside = plays(Role.RESUMED_FRAME, stack) or any(
        place is not None and (place.file, place.function) in broken
        for place in (frame_place(text, None) for text in stack.split(";"))
    )
    if inside:
        return "piece" if compiled else "between"
    return "whole" if compiled else "other"
