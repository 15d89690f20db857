"""Debugging modes that a watched process reports.

The cost of a mode is a typical share of the work that it slows down, and at least the time that
samples show in its own code.
"""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.sampled_lines import sampled_where
from whyidle.analysis.lines.source_lines import frame_place, in_library, matching_lines
from whyidle.analysis.sampling.share_error import share_bounds, unseen_python
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._eager_operators import traced_gains
from whyidle.causes.host._modes import (
    ALLOCATION_STACKS,
    ALLOCATIONS,
    EAGER,
    EAGER_MODEL,
    MODES,
    UNCOMPILED,
    Mode,
    active_share,
)
from whyidle.model.buckets import Bucket
from whyidle.model.cause import LEAST_SHARE, MOSTLY, Proof
from whyidle.model.diagnosis import Place
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

_ALSO = dict.fromkeys((ALLOCATIONS, ALLOCATION_STACKS), "loader") | {UNCOMPILED: "compile"}
"""what a mode slows down besides work and Python; workers are also traced"""


def debug_mode(facts: Facts) -> Proof | None:
    """Prove the costliest of the modes that are on. The evidence lists the others."""
    active = [(mode, share) for mode in MODES if (share := active_share(facts, mode)) > 0.0]
    if not active:
        return None
    costs = [(_mode_gains(facts, mode, share), mode) for mode, share in active]
    gains, mode = max(costs, key=lambda pair: pair[0][1])
    if gains[2] < LEAST_SHARE:
        return None
    evidence = []
    for other, share in active:
        name = f"{other.id.replace('_', ' ')} on, share of samples"
        evidence.append(make_evidence(name, share, "ratio", source="the process"))
    if mode.frames is not None:
        sampled = facts.share_of(_mode_time(facts, mode))
        evidence.append(make_evidence("samples in its code, share of step", sampled, "ratio"))
    return Proof(
        headline=mode.headline,
        predicted=from_gains(gains, "class figure, and samples in the mode's code"),
        evidence=tuple(evidence),
        confidence=0.8,
        where=_enabling_place(facts, mode),
        bucket=mode.within or _bucket_of(facts, mode, gains[1]),
        facts=HostFacts(mode=mode.id),
    )


def _bucket_of(facts: Facts, mode: Mode, gain: float) -> Bucket:
    """Where most of a mode's cost lies: garbage collection, or the work that it slows down."""
    spans = _mode_time(facts, mode) & facts.time_of("gc")
    if facts.share_of(spans) > MOSTLY * gain:
        return "interruption"
    compute = facts.bucket_share("compute") if facts.on_cpu else 0.0
    return "compute" if compute >= min(gain, facts.bucket_share("host")) else "host"


def _mode_gains(facts: Facts, mode: Mode, active: float) -> tuple[float, float, float]:
    """Share of the step (low, expected, high) of a mode that is on in a share of samples: of work
    and Python on a CPU, otherwise of the time in which the device waits for the host."""
    caller = "keras" if mode is EAGER_MODEL else ""
    if mode in EAGER and (gains := traced_gains(facts, caller)):
        return gains[0] * active, gains[1] * active, gains[2] * active
    spans = _mode_time(facts, mode)
    work = facts.bucket_share(mode.within or "host")
    beside = max(0.0, work - facts.share_of(spans))
    if facts.on_cpu and not mode.within:
        # JAX also compiles single operators where compilation is disabled
        time = facts.time_of("compute", "python", *filter(None, [_ALSO.get(mode)]))
        work, beside = facts.share_of(time), facts.share_of(time - spans)
    if mode.operators and facts.burst and facts.burst.operators:
        rows = facts.burst.operators
        slow = sum(row.share for row in rows if mode.operators.search(row.name))
        part = slow / max(sum(row.share for row in rows), 1e-9)
        work, beside = work * part, beside * part
    least, most = share_bounds(facts, spans) if len(spans) else (0.0, 0.0)
    sampled = (least, facts.share_of(spans), most)
    if mode.of_backward and len(spans):
        calls, host = facts.timeline.rows_of(Role.BACKWARD), facts.timeline.host
        passes = facts.share_of(union_of(host.start[calls], host.end[calls]) - spans) * active
        costs = [x + k * passes for x, k in zip(sampled, mode.of_backward, strict=True)]
        return costs[0], costs[1], min(costs[2] + unseen_python(facts, costs[1]), 1.0)
    # all sampled time is saved, and of the other work at most the class figure
    low, expected, high = (
        max(min(share * times, share + cost * beside), cost * work * active)
        for share, times, cost in zip(sampled, mode.whole, mode.costs, strict=True)
    )
    return low, expected, high


def _mode_time(facts: Facts, *modes: Mode) -> Intervals:
    """Times at which samples show code of these modes, if they are on."""
    active = [mode for mode in modes if mode.frames and active_share(facts, mode)]
    timeline, plays = facts.timeline, facts.timeline.vocabulary.plays
    roles = [mode.frames for mode in active if mode.frames]
    spans = sampled_where(facts, lambda stack: any(plays(role, stack) for role in roles))
    if any(mode.of_backward for mode in active):  # Python that ended at the operator asking for it
        rows = np.flatnonzero(timeline.host.detail >= 0)
        rows = rows[[timeline.details[i].after for i in timeline.host.detail[rows]]]
        asked = sampled_where(facts, lambda x: plays(Role.FRAMEWORK_CODE, x.split(";")[0]), rows)
        spans = spans | (asked & facts.time_of("python"))
    return spans & facts.scope


def debugging_time(facts: Facts) -> Intervals:
    """Times at which samples show code of any mode, which other causes exclude."""
    return _mode_time(facts, *MODES)


def _enabling_place(facts: Facts, mode: Mode) -> tuple[Place, ...]:
    """The user's line that enabled the mode, not one of a tracer's own program."""
    for text in facts.timeline.process.asked.get(mode.id.removesuffix("_stacks"), "").split(";"):
        place = frame_place(text, facts.rank)
        if place is not None and not in_library(place):
            return (place,)
    sources = facts.timeline.sources
    return matching_lines(sources, mode.source, facts.rank)[:1] if mode.source else ()
