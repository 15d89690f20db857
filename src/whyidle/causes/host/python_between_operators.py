"""Python between operators delays the model in jobs on the CPU."""

from __future__ import annotations

from collections import Counter, defaultdict

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_freeing import freeing_share
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.lines.source_lines import called_at, package_of
from whyidle.analysis.partition.queue_refills import PAUSE_NS
from whyidle.analysis.ranks.gradient_exchanges import unused_parameter_searches
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.causes.host._cpu_jobs import REMOVED
from whyidle.causes.host._debug_modes import debugging_time
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts


@cause(
    "Python between operators delays a job on the CPU",
    bucket="host",
    needs=("device_time", "host_ops", "steps", "python_stacks"),
    common=True,
)
def python_between_operators(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The job computes on the CPU. Between its operators, the training thread runs Python that
    computes nothing for the model: sleeping, converting lists, metrics, string building.

    Why it costs
    ------------
    Operators run when they are called, so this Python lengthens the step by its whole time.

    How it is detected
    ------------------
    In profiles of jobs without a GPU, whyidle finds stretches of at least 0.2 ms in which the
    training thread shows Python frames but no operator. Shorter stretches are the usual dispatch of
    operators, which recording lengthens. If ranks meet in every step, only the time that all of
    them have counts. The prediction saves half, nine tenths or all of it.

    What looks alike
    ----------------
    Loading, preprocessing, checkpoints, logging and garbage collection have causes of their own.
    Watched jobs are ``python-overhead-in-step``. Additional Python of one rank is ``late-rank``.

    What to do
    ----------
    Run code that only logs or measures every k-th step. Vectorise code that training needs, move it
    to another process, or run it ahead of the step.

    References
    ----------
    PyTorch, "Performance Tuning Guide" (general optimizations).
    """
    if not facts.on_cpu or facts.timeline.looks is not None:
        return None
    python = facts.time_of("python") - debugging_time(facts) - unused_parameter_searches(facts)
    long = python.length >= PAUSE_NS
    pauses = Intervals(python.start[long], python.end[long])
    share = facts.share_of(pauses) * (1.0 - freeing_share(facts, python))
    if share < LEAST_SHARE:
        return None
    where, library = _costliest_places(facts, pauses)
    low, expected, high = (share * removed for removed in REMOVED)
    return Proof(
        headline=f"Python{called_at(where, library)} takes "
        f"{format_duration(share * facts.step_s)} per step between operators",
        predicted=predict_removal(low, high, "the step without these stretches", expected),
        evidence=(
            make_evidence(
                "Python outside operators, share of step", share, "ratio", source="stacks"
            ),
        ),
        confidence=0.85 if where else 0.5,
        where=where,
        facts=HostFacts(library=library),
    )


def _costliest_places(facts: Facts, pauses: Intervals) -> tuple[tuple[Place, ...], str]:
    """The places with most time, and the library that runs at the first one."""
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
