"""Activations recomputed in the backward pass of a watched job whose device is the CPU."""

from __future__ import annotations

from collections import Counter

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import union_of
from whyidle.analysis.sampled_lines import sampled_stacks
from whyidle.analysis.source_places import frame_place, in_library
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role

ROOM = 0.6
"""with more than this share of memory in use at the peak, recomputation earns its place"""
LEAST_SHARE = 0.03
"""share of the step below which recomputation is not worth a word"""
KEPT = 0.7
"""share of it that is saved, if only part of the memory is there"""
ERRORS = 2.0
"""standard errors of counting samples, on either side"""


def prove_recomputation(facts: Facts) -> Proof | None:
    """Samples of the backward pass that lie in a forward pass run once more."""
    share, error = _recomputed_share(facts)
    used = _memory_used(facts)
    if share < LEAST_SHARE or (used is not None and used > ROOM):
        return None
    low, high = max(share - ERRORS * error, 0.0), min(share + ERRORS * error, 1.0)
    gains = (KEPT * low, share, high)
    evidence = [make_evidence("recomputation, share of step", share, "ratio", source="samples")]
    if used is not None:
        evidence.append(make_evidence("peak memory in use", used, "ratio", source="/proc, cgroup"))
    return Proof(
        headline=f"{share:.0%} of the step recomputes activations"
        + ("" if used is None else f" while {1 - used:.0%} of the memory is free"),
        low=gains[0],
        high=high,
        predicted=from_gains(gains, "P5: the step without what is computed again"),
        evidence=tuple(evidence),
        confidence=0.8 if used is not None else 0.45,
        where=_checkpoint_places(facts),
    )


def _recomputed_share(facts: Facts) -> tuple[float, float]:
    """Share of the step, and its standard error: that of the backward passes, by the share of
    their samples."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.BACKWARD)
    backward = union_of(host.start[rows], host.end[rows]) & facts.time_of("compute")
    spent = sampled_stacks(facts, backward)
    again = sum(time for stack, time in spent.items() if _is_again(facts, stack))
    part = again / max(sum(spent.values()), 1)
    looks = int((backward.contains_times(host.start) & (host.detail >= 0)).sum())
    whole = facts.share_of(backward)
    return whole * part, whole * (part * (1.0 - part) / max(looks, 1)) ** 0.5


def _is_again(facts: Facts, stack: str) -> bool:
    """Inside a recomputation, and not in the backward pass that it runs itself."""
    plays = facts.timeline.vocabulary.plays
    for frame in stack.split(";"):
        if plays(Role.ENGINE_FRAME, frame):
            return False
        if plays(Role.RECOMPUTE_FRAME, frame):
            return True
    return False


def _checkpoint_places(facts: Facts) -> tuple[Place, ...]:
    """The line that asks for checkpoints most, else a function that is computed again."""
    asked: Counter[str] = Counter()
    again: Counter[str] = Counter()
    plays = facts.timeline.vocabulary.plays
    for stack, time in sampled_stacks(facts, facts.scope).items():
        frames = stack.split(";")
        calls = (i for i, frame in enumerate(frames) if plays(Role.RECOMPUTE_CALL, frame))
        asked[_user_frame(frames, next(calls, None))] += time
        again[_user_frame(frames, 0 if _is_again(facts, stack) else None)] += time
    for found in (asked, again):
        del found[""]
        if found:
            place = frame_place(found.most_common(1)[0][0], facts.rank)
            return (place,) if place else ()
    return ()


def _user_frame(frames: list[str], begin: int | None) -> str:
    """The innermost frame of the user's own code from a position outwards; empty: none."""
    for text in [] if begin is None else frames[begin:]:
        place = frame_place(text, None)
        if place is not None and not in_library(place):
            return text
    return ""


def _memory_used(facts: Facts) -> float | None:
    """Peak of the process's memory as share of what it may have; None where not told."""
    outside = facts.telemetry
    if outside is None:
        return None
    sizes = [
        outside.mean_value(name) for name in ("machine_memory_bytes", "group_memory_limit_bytes")
    ]
    known = [size for size in sizes if size]
    own = outside.highest_value("job_memory_resident_bytes")
    return own / min(known) if own and known else None
