"""Activation recomputation in watched jobs on the CPU, from stack samples."""

from __future__ import annotations

from collections import Counter

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.sampled_lines import sampled_stacks
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import NOTICEABLE, Proof
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role

ROOM = 0.6
"""peak memory use (share) above which recomputation is justified"""
SAVED = 0.7
"""low estimate: share of the recomputation that is saved if only part of the memory is free"""
ERRORS = 2.0
"""standard errors of the sample count on either side"""


def prove_recomputation(facts: Facts) -> Proof | None:
    """Prove recomputation from samples of the backward pass that run forward code again."""
    share, error = _recomputed_share(facts)
    used = _memory_used(facts)
    if share < NOTICEABLE or (used is not None and used > ROOM):
        return None
    low, high = max(share - ERRORS * error, 0.0), min(share + ERRORS * error, 1.0)
    gains = (SAVED * low, share, high)
    evidence = [make_evidence("recomputation, share of step", share, "ratio", source="samples")]
    if used is not None:
        evidence.append(make_evidence("peak memory in use", used, "ratio", source="/proc, cgroup"))
    return Proof(
        headline=f"{share:.0%} of the step recomputes activations"
        + ("" if used is None else f" while {1 - used:.0%} of the memory is free"),
        low=gains[0],
        high=high,
        predicted=from_gains(gains, "P5: the step without the recomputation"),
        evidence=tuple(evidence),
        confidence=0.8 if used is not None else 0.45,
        where=_checkpoint_places(facts),
    )


def _recomputed_share(facts: Facts) -> tuple[float, float]:
    """Share of the step, and its standard error: the backward passes' share of the step, times the
    share of their samples."""
    host = facts.timeline.host
    rows = facts.rows_of(Role.BACKWARD)
    backward = union_of(host.start[rows], host.end[rows]) & facts.time_of("compute")
    stacks = sampled_stacks(facts, backward)
    repeated = sum(time for stack, time in stacks.items() if _is_recomputation(facts, stack))
    part = repeated / max(sum(stacks.values()), 1)
    samples = int((backward.contains_times(host.start) & (host.detail >= 0)).sum())
    share = facts.share_of(backward)
    return share * part, share * (part * (1.0 - part) / max(samples, 1)) ** 0.5


def _is_recomputation(facts: Facts, stack: str) -> bool:
    """Whether a sample is inside a recomputation, but not in a backward pass nested in it."""
    plays = facts.timeline.vocabulary.plays
    for frame in stack.split(";"):
        if plays(Role.ENGINE_FRAME, frame):
            return False
        if plays(Role.RECOMPUTE_FRAME, frame):
            return True
    return False


def _checkpoint_places(facts: Facts) -> tuple[Place, ...]:
    """The line that calls checkpointing most, else the function that is recomputed most."""
    calling: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    plays = facts.timeline.vocabulary.plays
    for stack, time in sampled_stacks(facts, facts.scope).items():
        frames = stack.split(";")
        calls = (i for i, frame in enumerate(frames) if plays(Role.RECOMPUTE_CALL, frame))
        calling[_user_frame(frames, next(calls, None))] += time
        repeated[_user_frame(frames, 0 if _is_recomputation(facts, stack) else None)] += time
    for times in (calling, repeated):
        del times[""]
        if times:
            place = frame_place(times.most_common(1)[0][0], facts.rank)
            return (place,) if place else ()
    return ()


def _user_frame(frames: list[str], begin: int | None) -> str:
    """The innermost frame of the user's own code from a position outwards; "" if there is none."""
    for text in [] if begin is None else frames[begin:]:
        place = frame_place(text, None)
        if place is not None and not in_library(place):
            return text
    return ""


def _memory_used(facts: Facts) -> float | None:
    """Peak of the process's memory as share of its limit; None if unknown."""
    telemetry = facts.telemetry
    if telemetry is None:
        return None
    names = ("machine_memory_bytes", "group_memory_limit_bytes")
    limits = [limit for name in names if (limit := telemetry.mean_value(name))]
    peak = telemetry.highest_value("job_memory_resident_bytes")
    return peak / min(limits) if peak and limits else None
