"""Graph breaks of watched jobs on the CPU, from Dynamo's reports and stack samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY
from whyidle.analysis.lines.sampled_lines import sampled_stacks
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.analysis.partition import compilation
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.buckets import Bucket
from whyidle.model.cause import LEAST_SHARE, Proof
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.roles import Role

BETWEEN = (0.3, 0.7, 1.0)
"""share saved of eager code between pieces (low, expected, high): some breaks are necessary"""
RECOMPILED = (0.6, 0.9, 1.0)
"""share saved of recompilations for numbers that a break passes on"""
FUSED = (0.0, 0.1, 0.4)
"""share of the pieces' own work that a single graph saves"""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the step."""

    between: float  # eager code between the pieces of broken functions
    pieces: float  # the compiled pieces, with their backward passes
    recompiled: float  # recompilations for numbers that breaks pass on


def graph_breaks(facts: Facts) -> Proof | None:
    """Prove breaks that Dynamo reported. Samples of the broken functions show their cost."""
    breaks = _list_breaks(facts)
    if not breaks:
        return None
    shares = _sample_shares(facts, {(place.file, place.function) for place, _, _ in breaks})
    low, expected, high = (
        b * shares.between + f * shares.pieces + r * shares.recompiled
        for b, f, r in zip(BETWEEN, FUSED, RECOMPILED, strict=True)
    )
    if high < LEAST_SHARE:
        return None
    count = len(breaks)
    bucket: Bucket = "compute" if facts.bucket_share("compute") >= shares.between else "host"
    return Proof(
        headline=f"Graph breaks at {count} place{'s' if count > 1 else ''} split the compiled "
        f"model: {breaks[0][1]}",
        low=low,
        high=high,
        predicted=from_gains((low, expected, high), "P4: one graph instead of pieces"),
        evidence=_break_evidence(breaks, shares),
        confidence=0.7,
        where=tuple(place for place, _, _ in breaks[:3]),
        bucket="interruption" if shares.recompiled > shares.between else bucket,
    )


def _break_evidence(breaks: list[tuple[Place, str, int]], shares: Shares) -> tuple[Evidence, ...]:
    total = sum(count for _, _, count in breaks)
    eager = "eager code between the pieces, share of step"
    pieces = "compiled pieces of broken functions, share of step"
    again, dynamo = "recompilations for numbers from breaks, share of step", "torch._dynamo"
    return (
        make_evidence("graph breaks while compiling", total, None, source=dynamo),
        make_evidence(eager, shares.between, "ratio", source="samples"),
        make_evidence(pieces, shares.pieces, "ratio", source="samples"),
        make_evidence(again, shares.recompiled, "ratio", source=dynamo),
        *(make_evidence("reason", text, None, source=dynamo) for _, text, _ in breaks[:3]),
    )


def _list_breaks(facts: Facts) -> list[tuple[Place, str, int]]:
    """The user's place, the reason and the count of each break, the most frequent first. Deliberate
    breaks in PyTorch's own optimizers are left out."""
    vocabulary = facts.timeline.vocabulary
    breaks: dict[tuple[str | None, int | None], tuple[Place, str, int]] = {}
    compiler = compilation.compiler_facts(facts)
    for graph_break in compiler.graph_breaks if compiler else ():
        frames = [frame_place(text, facts.rank) for text in graph_break.stack.split(";")]
        places = [place for place in frames if place is not None]
        own = next((place for place in places if not in_library(place)), None)
        if own is None or vocabulary.plays(Role.OPTIMIZER_FRAME, places[0].file or ""):
            continue
        resumed = vocabulary.parts(Role.RESUMED_FRAME, own.function or "")
        if resumed:
            own = Place(file=own.file, line=own.line, function=resumed["function"], rank=own.rank)
        key = (own.file, own.line)
        count = graph_break.count + (breaks[key][2] if key in breaks else 0)
        breaks[key] = own, compilation.first_line(graph_break.reason), count
    return sorted(breaks.values(), key=lambda item: -item[2])


def _sample_shares(facts: Facts, broken: set[tuple[str | None, str | None]]) -> Shares:
    """Shares from all samples in scope outside compilation."""
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
    """Classify a sample: a compiled "piece" of a broken function, eager code "between" two,
    another ("whole") compiled function, a compiled "backward" pass, or "other"."""
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
