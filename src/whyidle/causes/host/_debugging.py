"""Debugging modes of a watched job whose device is the CPU, as the process itself tells them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whyidle.analysis.codes import among
from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import EMPTY, Intervals, union
from whyidle.analysis.places import frame_place, in_library
from whyidle.analysis.sampling.share_error import bounds
from whyidle.causes.host._modes import ANOMALY, MODES, Mode, seen_on
from whyidle.causes.host._noting import noted
from whyidle.causes.host._searching import passes, searching
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Place

LEAST_SHARE = 0.01


def debug_mode(facts: Facts, modes: Sequence[Mode] = MODES) -> Proof | None:
    """The dearest of these modes that is on; others are named in the evidence."""
    on = [(mode, share) for mode in modes if (share := seen_on(facts, mode)) > 0.0]
    priced = [(_gains(facts, mode, _work(facts, mode, share)), mode) for mode, share in on]
    if not priced:
        return None
    gains, mode = max(priced, key=lambda pair: pair[0][1])
    if gains[2] < LEAST_SHARE:
        return None
    evidence = [
        measured(_said(each), share, "ratio", source="the process itself") for each, share in on
    ]
    method = "class figure, and what samples show of it"
    timed = noted(facts) if mode is ANOMALY else None
    if timed is not None:
        name = "noting where operators are called, share of step"
        evidence.append(measured(name, timed.timed, "ratio", source="the process itself"))
        method = "what was timed of it, and how long backward passes are beside forward passes"
    elif mode.frames is not None:
        seen = facts.share_of(seen_of(facts, mode))
        evidence.append(measured("samples inside it, share of step", seen, "ratio"))
    return Proof(
        headline=mode.headline,
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, method),
        evidence=tuple(evidence),
        confidence=0.8,
        where=_where(facts, mode),
        bucket=mode.within or _bucket(facts, gains[1]),
        facts={"mode": mode.id, "was": _set(facts, mode)},
    )


def _set(facts: Facts, mode: Mode) -> str | None:
    """How the variable is set that switches it on."""
    value = (facts.timeline.settings.get("environment") or {}).get(mode.variable)
    return None if value is None else str(value)


def _said(mode: Mode) -> str:
    if mode.variable:
        return f"{mode.variable} was set, share of looks"
    return f"{mode.id.replace('_', ' ')} was on, share of looks"


def _work(facts: Facts, mode: Mode, share: float) -> float:
    """Share of the step that it can take, which was on in so many looks. What is timed tells by
    itself how long it was on; looks may come when training has ended, and the mode with it."""
    timed = noted(facts) if mode is ANOMALY else None
    return _touched(facts, mode) * (share if timed is None else 1.0)


def _touched(facts: Facts, mode: Mode) -> float:
    """Share of the step that is work or Python which a mode can slow down; of a device the part in
    which it waits for these."""
    if mode.within or not facts.on_cpu:
        return facts.share(mode.within or "host")
    return facts.share_of(facts.part("compute", "python") - _spared(facts, mode))


def _spared(facts: Facts, mode: Mode) -> Intervals:
    if not mode.spared:
        return EMPTY
    host, rows = facts.timeline.host, facts.rows_of(mode.spared)
    return union(host.start[rows], host.end[rows])


def _gains(facts: Facts, mode: Mode, work: float) -> tuple[float, float, float]:
    """At least what is known of it, with the error of that, and what comes with it; and what is not
    known: by the backward pass where that tells, or else the class figure."""
    seen, whole = _known(facts, mode)
    costs = _costs(facts, mode, seen, work)
    careful, expected, hopeful = (
        max(share, min(share * times, work), cost)
        for share, times, cost in zip(seen, whole, costs, strict=True)
    )
    return careful, expected, hopeful


def _known(
    facts: Facts, mode: Mode
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Share of the step, and how many times as much all of the mode takes: what was timed is all
    that it takes outside of the backward pass, of samples that is known from other jobs."""
    timed = noted(facts) if mode is ANOMALY else None
    if timed is not None:
        return (timed.timed, timed.noting, timed.most), (1.0, 1.0, 1.0)
    spans = seen_of(facts, mode)
    least, most = bounds(facts, spans) if len(spans) else (0.0, 0.0)
    return (least, facts.share_of(spans), most), mode.whole


def _costs(
    facts: Facts, mode: Mode, seen: tuple[float, float, float], work: float
) -> tuple[float, float, float]:
    careful, expected, hopeful = (cost * work for cost in mode.costs)
    searched = None
    if mode is ANOMALY:
        timed = noted(facts)
        least = timed.searched if timed else 0.0
        searched = searching(facts, timed.forward if timed else _forward(facts, mode), least)
    if searched is None:
        return careful, expected, hopeful
    found = [min(work, share + search) for share, search in zip(seen, searched, strict=True)]
    if seen[1] < hopeful:  # else it is known to take more than in other jobs
        found[2] = min(hopeful, found[2])
    return min(careful, found[0]), found[1], max(found[1:])


def _forward(facts: Facts, mode: Mode) -> float:
    """Share of the step that the forward pass takes, if all work before the backward pass is its:
    where some of that needs no gradients, less of the backward pass seems to be too much."""
    known = seen_of(facts, mode) | _spared(facts, mode) | passes(facts)
    return facts.share_of(facts.part("compute") - known)


def seen_of(facts: Facts, *modes: Mode) -> Intervals:
    """When samples show code of these modes that are on."""
    roles = [mode.frames for mode in modes if mode.frames and seen_on(facts, mode)]
    if not roles:
        return EMPTY
    host, details = facts.timeline.host, facts.timeline.details
    plays = facts.timeline.vocabulary.plays
    texts = [any(plays(role, detail.stack) for role in roles) for detail in details]
    wanted = np.flatnonzero(np.array(texts, dtype=bool))
    rows = np.flatnonzero((host.detail >= 0) & among(host.detail, wanted.tolist()))
    return union(host.start[rows], host.end[rows]) & facts.scope


def debugging(facts: Facts) -> Intervals:
    """When samples show code of any mode: what other causes need not explain."""
    return seen_of(facts, *MODES)


def _bucket(facts: Facts, gain: float) -> Bucket:
    """The one that holds what is expected to be won, or most of it."""
    compute = facts.share("compute") if facts.on_cpu else 0.0
    return "compute" if compute >= min(gain, facts.share("host")) else "host"


def _where(facts: Facts, mode: Mode) -> tuple[Place, ...]:
    """The line that switched it on; the frames of a tracer's own program are none of the job's."""
    asked = (facts.timeline.settings.get("asked") or {}).get(mode.id) or ""
    for text in str(asked).split(";"):
        place = frame_place(text, facts.rank)
        if place is not None and not in_library(place):
            return (place,)
    return ()
