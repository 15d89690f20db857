"""Debugging modes of a watched job whose device is the CPU, as the process itself tells them.

What a mode costs is a class figure on the work that it slows down (``Mode.costs``, with its
source), and at least what samples show of the mode's own code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whyidle.analysis.codes import is_among
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.source_places import frame_place, in_library
from whyidle.causes.host._modes import MODES, Mode, seen_on
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Place
from whyidle.model.proof_facts import HostFacts

LEAST_SHARE = 0.01


def debug_mode(facts: Facts, modes: Sequence[Mode] = MODES) -> Proof | None:
    """The dearest of these modes that is on; others are named in the evidence."""
    on = [(mode, share) for mode in modes if (share := seen_on(facts, mode)) > 0.0]
    priced = [(_gains(facts, mode, share), mode) for mode, share in on]
    if not priced:
        return None
    gains, mode = max(priced, key=lambda pair: pair[0][1])
    if gains[2] < LEAST_SHARE:
        return None
    evidence = [
        make_evidence(_state(each), share, "ratio", source="the process itself")
        for each, share in on
    ]
    if mode.frames is not None:
        seen = facts.share_of(seen_of(facts, mode))
        evidence.append(make_evidence("samples inside it, share of step", seen, "ratio"))
    return Proof(
        headline=mode.headline,
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, "class figure, and what samples show of it"),
        evidence=tuple(evidence),
        confidence=0.8,
        where=_where(facts, mode),
        bucket=mode.within or _bucket(facts, gains[1]),
        facts=HostFacts(mode=mode.id, was=_value(facts, mode)),
    )


def _value(facts: Facts, mode: Mode) -> str | None:
    """How the variable is set that switches it on."""
    return facts.timeline.process.environment.get(mode.variable)


def _state(mode: Mode) -> str:
    if mode.variable:
        return f"{mode.variable} was set, share of looks"
    return f"{mode.id.replace('_', ' ')} was on, share of looks"


def _gains(facts: Facts, mode: Mode, on: float) -> tuple[float, float, float]:
    """Share of the step (careful, expected, hopeful) that a mode takes which was on in so many
    looks: of work and Python, or of a device the part in which it waits for these."""
    own = mode.within or ("host" if not facts.on_cpu else None)
    work = facts.bucket_share(own) if own else facts.share_of(facts.time_of("compute", "python"))
    spans = seen_of(facts, mode)
    least, most = share_bounds(facts, spans) if len(spans) else (0.0, 0.0)
    seen = (least, facts.share_of(spans), most)
    # all that samples show of it goes, and of the other work no more than the class figure
    careful, expected, hopeful = (
        max(min(share * times, share + cost * max(0.0, work - share)), cost * work * on)
        for share, times, cost in zip(seen, mode.whole, mode.costs, strict=True)
    )
    return careful, expected, hopeful


def seen_of(facts: Facts, *modes: Mode) -> Intervals:
    """When samples show code of these modes that are on."""
    roles = [mode.frames for mode in modes if mode.frames and seen_on(facts, mode)]
    if not roles:
        return EMPTY
    host, details = facts.timeline.host, facts.timeline.details
    plays = facts.timeline.vocabulary.plays
    texts = [any(plays(role, detail.stack) for role in roles) for detail in details]
    wanted = np.flatnonzero(np.array(texts, dtype=bool))
    rows = np.flatnonzero((host.detail >= 0) & is_among(host.detail, wanted.tolist()))
    return union_of(host.start[rows], host.end[rows]) & facts.scope


def debugging(facts: Facts) -> Intervals:
    """When samples show code of any mode: what other causes need not explain."""
    return seen_of(facts, *MODES)


def _bucket(facts: Facts, gain: float) -> Bucket:
    """The one that holds what is expected to be won, or most of it."""
    compute = facts.bucket_share("compute") if facts.on_cpu else 0.0
    return "compute" if compute >= min(gain, facts.bucket_share("host")) else "host"


def _where(facts: Facts, mode: Mode) -> tuple[Place, ...]:
    """The line that switched it on; the frames of a tracer's own program are none of the job's."""
    for text in facts.timeline.process.asked.get(mode.id, "").split(";"):
        place = frame_place(text, facts.rank)
        if place is not None and not in_library(place):
            return (place,)
    return ()
