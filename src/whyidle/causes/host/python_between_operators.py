"""On a job of the CPU, Python between operators takes the place of the model's work."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from whyidle.analysis.batch_freeing import freeing_share
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.gradient_exchanges import unused_parameter_searches
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.source_places import called_at, package_of
from whyidle.causes.host._debugging import debugging
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which pauses are not worth a word"""
PAUSE_NS = 200_000
"""a pause, as in ``python-overhead-in-step``: far longer than the way from operator to operator"""
REMOVED = (0.5, 0.9, 1.0)
"""careful: half can go; expected: it runs in every tenth step only; hopeful: not at all"""
MOST_PLACES, MOST_TRIED = 3, 50


@cause(
    "Python between operators holds up a job of the CPU",
    bucket="host",
    needs=("device_time", "host_ops", "steps", "python_stacks"),
    common=True,
)
def python_between_operators(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The job computes on the CPU, and between its operators the training thread runs Python that
    computes nothing for the model: sleeping, converting lists, metrics, string building.

    Why it costs
    ------------
    Operators run when they are called, so the step is longer by all of it.

    How it is detected
    ------------------
    On jobs without a GPU, stretches of at least 0.2 ms in which the training thread shows Python
    frames but no operator. Shorter ones are the usual way from one operator to the next, which
    recording itself makes longer; and as many looks at operators as are known to be taken for
    Python are taken off. Of ranks that meet in every step only what all of them have counts: what
    one does beyond the others makes it late (``late-rank``). The gain is the time of these
    stretches halved, in every tenth step only, or gone.

    What looks alike
    ----------------
    Loading, preprocessing, checkpoints, logging and garbage collection have causes of their own.
    Where a GPU computes, only what keeps it waiting counts, and of a watched job looks tell, with
    their error: both are ``python-overhead-in-step``.

    What to do
    ----------
    What only logs or measures: do it every k-th step. What training needs: vectorise it, move it
    to another process, or make it ahead.

    References
    ----------
    PyTorch, "Performance Tuning Guide" (general optimizations).
    """
    if not facts.on_cpu or facts.timeline.looks is not None:
        return None
    spent = facts.time_of("python") - debugging(facts) - unused_parameter_searches(facts)
    long = spent.length >= PAUSE_NS
    pauses = Intervals(spent.start[long], spent.end[long])
    share = facts.share_of(pauses) * (1.0 - freeing_share(facts, spent))
    if share < LEAST_SHARE:
        return None
    where, library = _costliest_places(facts, pauses)
    low, expected, high = (share * removed for removed in REMOVED)
    at = called_at(where, library)
    return Proof(
        headline=f"Python{at} takes {format_duration(share * facts.step_s)} per step between "
        "operators",
        low=low,
        high=high,
        predicted=predict_removal(low, high, "the step without these stretches", expected),
        evidence=(
            make_evidence(
                "Python without an operator, share of step", share, "ratio", source="stacks"
            ),
            *_longest_stretch(facts, pauses),
        ),
        confidence=0.85 if where else 0.5,
        where=where,
        facts=HostFacts(library=library),
    )


def _longest_stretch(facts: Facts, pauses: Intervals) -> tuple[Evidence, ...]:
    """The longest stretch, and what ran in it, a built-in function too. A line of the framework is
    the call of an operator, at which a look may have come late: such a stretch is no example."""
    for row in np.argsort(-pauses.length, kind="stable")[:MOST_TRIED].tolist():
        middle = int(pauses.start[row] + pauses.end[row]) // 2
        names = (facts.places.function_at(int(thread), middle) for thread in facts.host.drivers)
        name = next((name for name in names if name), "")
        if not facts.timeline.vocabulary.plays(Role.FRAMEWORK_FRAME, name):
            length = float(pauses.length[row]) / 1e9
            found = make_evidence("longest stretch", length, "s", samples=len(pauses))
            return (found, make_evidence("which is in", name, None, source="stacks"))[
                : 1 + bool(name)
            ]
    return ()


def _costliest_places(facts: Facts, pauses: Intervals) -> tuple[tuple[Place, ...], str]:
    """Where most of the time was spent, the user's own code first; and the library that is called
    at the first place, if it is in there mostly."""
    spent: Counter[Place] = Counter()
    within: defaultdict[Place, Counter[str]] = defaultdict(Counter)
    for start, end in zip(pauses.start.tolist(), pauses.end.tolist(), strict=True):
        middle = (start + end) // 2
        for thread in map(int, facts.host.drivers):
            if (place := facts.places.place_at(thread, middle)) is not None:
                spent[place] += end - start
                inner = facts.places.function_at(thread, middle) or ""
                within[place][package_of(inner)] += end - start
                break
    where = tuple(place for place, _ in spent.most_common(MOST_PLACES))
    return where, within[where[0]].most_common(1)[0][0] if where else ""
