"""The same causes on a watched job whose device is the CPU, from samples and settings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.batch_freeing import freeing_share
from whyidle.analysis.cache_emptying import FROM_SHARED_S, at_most_s
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.gradient_exchanges import unused_parameter_searches
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.optimizer_work import FUSED
from whyidle.analysis.sampled_lines import running_lines
from whyidle.analysis.sampling.share_error import (
    between_steps,
    sample_count,
    share_bounds,
    unseen_python,
)
from whyidle.analysis.source_places import called_at
from whyidle.causes.host._debugging import debugging
from whyidle.causes.host._fused_update import fused_s
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration
from whyidle.model.process_facts import OptimizerFacts
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

LEAST_SHARE = 0.03
"""share of the step below which Python between calls is ordinary, the framework's own for a part;
the careful end of what was seen has to be above it: of a healthy job 1.7 to 3.2 % were told"""
PLACELESS = 0.10
"""the same where no look shows a line of it, or only those before which it ran. Looks that waited
for the lock say that Python ran, and a few do so by mistake: two healthy jobs were told of 3.6 %, a
sick one of 5.5 % beside its cause. And modules and optimizers run Python before each operator: a
healthy job of 9 ms per step was told of 5.4 % before its loss, one in three recordings, and a sick
one of 6.2 % beside its cause. Of much there may be no line as well, if the lock is handed over
after its last one: a loop of a third of the step had none in one of three recordings"""
REMOVED = (0.5, 0.9, 1.0)
"""careful: half can go; expected: it runs in every tenth step only; hopeful: not at all"""
WARM = (0.0, 0.5, 1.0)
"""share of what refilling the core's cache takes at most that the rest of the step is spared by a
shorter update: beside a fused update the rest of a step took 1.82 to 1.83 ms, beside a loop 1.92 to
2.18 ms, and with a mere 3.4 ms of spinning in each step 2.10 to 2.16 ms; at most are 0.33 ms
(medians, PyTorch 2.13, two virtual cores)"""


def python_overhead(facts: Facts) -> Proof | None:
    """Python between the calls of a step, but for a search for unused parameters, which has a cause
    of its own. Its careful and hopeful ends hold the sampling error of its share
    (``share_bounds``), the hopeful end also what looks may have missed. Where no look shows a line
    of its own, and it is not much, nothing is expected of moving it."""
    spans = facts.time_of("python") - debugging(facts) - unused_parameter_searches(facts)
    kept = 1.0 - freeing_share(facts, spans)
    share = kept * facts.share_of(spans)
    least, most = (kept * bound for bound in share_bounds(facts, spans))
    if min(share, least) < LEAST_SHARE:
        return None
    where, before, library = running_lines(facts, spans)
    most = min(1.0, most + unseen_python(facts, share))
    gains = (REMOVED[0] * least, REMOVED[1] * share, most)
    if (before or not where) and share < PLACELESS:
        gains = (0.0, 0.0, most)
    at = called_at(where, library, before=before)
    return Proof(
        headline=f"Python{at} takes {format_duration(share * facts.step_s)} of each step",
        low=gains[0],
        high=most,
        predicted=from_gains(gains, "the step without half, nine tenths or all of it"),
        evidence=(
            make_evidence(
                "Python between calls, share of step",
                share,
                "ratio",
                samples=sample_count(facts),
                source="samples",
            ),
            make_evidence("a step", facts.step_s, "s", samples=facts.step_count, source="steps"),
        ),
        confidence=0.85 if where else 0.5,
        where=where,
        facts=HostFacts(before=before, library=library),
    )


def _calls_named(facts: Facts, *names: str) -> tuple[Intervals, tuple[Place, ...]]:
    """When calls of some names ran, and where the longest was made."""
    host = facts.timeline.host
    rows = _rows(facts, *names)
    if not len(rows):
        return union_of(host.start[rows], host.end[rows]), ()
    longest = rows[np.argsort(host.start[rows] - host.end[rows])[:20]]
    places = (facts.places.place_of_samples(int(row)) for row in longest)
    place = next((place for place in places if place), None)
    return union_of(host.start[rows], host.end[rows]), (place,) if place else ()


def optimizer_loop(facts: Facts) -> Proof | None:
    """A loop over many tensors where one fused call would do: of all optimizers that step so."""
    looping = _looping_optimizers(facts)
    if not looping:
        return None
    spans, where = _calls_named(facts, *looping)
    share = facts.share_of(spans)
    taken = share * facts.step_s
    often = {span: _per_step(facts, span) for span in looping}
    each = [_predict_fused(facts, span, told, often[span]) for span, told in looping.items()]
    floors = tuple(sum(costs) for costs in zip(*each, strict=True))
    tensors = round(sum(often[span] * told.tensors for span, told in looping.items()))
    name = " and ".join(dict.fromkeys(told.name for told in looping.values()))
    if (taken - floors[1]) / max(facts.step_s, 1e-9) < LEAST_SHARE:
        return None
    careful, expected, lost = (
        _predict_saving(facts, taken, floor, part) for floor, part in zip(floors, WARM, strict=True)
    )
    doubt = between_steps(facts, spans)
    gains = (max(0.0, careful - doubt), expected, min(1.0, lost + doubt))
    return Proof(
        headline=f"{name} update{'' if ' and ' in name else 's'} {tensors} tensors one after the "
        f"other: {format_duration(taken)} per step",
        low=careful,
        high=lost,
        predicted=from_gains(gains, "P4: a fused update at memory speed, and a warmer cache"),
        evidence=(
            make_evidence("optimizer, share of step", share, "ratio", source="calls"),
            make_evidence("tensors", tensors, None, source="param_groups"),
            make_evidence("what a fused update needs, per step", floors[1], "s", source="model"),
            *_in_burst(facts),
        ),
        confidence=0.8,
        where=where,
        bucket="compute",
        facts=HostFacts(optimizer=name.split()[0], implementation="loop", noun=facts.device_noun),
    )


def _predict_saving(facts: Facts, taken_s: float, floor_s: float, warm: float) -> float:
    """Share of the step that is won where an update takes ``floor_s`` instead: it, and what the
    cache then keeps of the rest."""
    less = max(0.0, taken_s - floor_s)
    cooled = at_most_s(FROM_SHARED_S, less, facts.step_s - taken_s)
    return (less + warm * cooled) / max(facts.step_s, 1e-9)


def _rows(facts: Facts, *names: str) -> NDArray[np.int64]:
    """Optimizer steps of some names."""
    rows = facts.rows_of(Role.OPTIMIZER)
    return rows[[facts.timeline.names[i] in names for i in facts.timeline.host.name[rows]]]


def _predict_fused(facts: Facts, span: str, told: OptimizerFacts, often: float) -> list[float]:
    """What the updates of a step take where one optimizer is fused, s."""
    spans, _ = _calls_named(facts, span)
    taken_s = facts.share_of(spans) * facts.step_s / max(often, 1e-9)
    return [often * cost for cost in fused_s(told, taken_s)]


def _looping_optimizers(facts: Facts) -> dict[str, OptimizerFacts]:
    """Optimizers that could be fused and are not, by the name of their steps' spans."""
    timeline = facts.timeline
    first = timeline.process.optimizer or OptimizerFacts()
    spans = [
        timeline.names[i]
        for i in timeline.names_of(Role.OPTIMIZER)
        if timeline.label(Role.OPTIMIZER, int(i)) == first.name
    ]
    known = {**dict.fromkeys(spans[:1], first), **timeline.process.optimizers}
    return {
        span: told
        for span, told in known.items()
        if told.name in FUSED and not (told.fused or told.differentiable) and told.tensors
    }


def _per_step(facts: Facts, span: str) -> float:
    """How many times an optimizer steps in a step: not in each, where it took another's place."""
    return len(_rows(facts, span)) / max(facts.step_count, 1)


def _in_burst(facts: Facts) -> tuple[Evidence, ...]:
    """What the optimizer is made of, where every operator of some steps was recorded."""
    burst = facts.burst
    if burst is None:
        return ()
    mine = [one for one in burst.operators if one.phase == "optimizer"]
    calls = sum(one.count for one in mine) / max(burst.step_count, 1)
    share = sum(one.share for one in mine)
    window = burst.timeline.burst.window if burst.timeline.burst else "burst"
    return (
        make_evidence(
            "operators in the optimizer, per step", calls, None, source="burst", window=window
        ),
        make_evidence(
            "optimizer, share of all operators' time", share, "ratio", source="burst", window=window
        ),
    )
