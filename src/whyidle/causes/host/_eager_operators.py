"""Operators of JAX that a watched job calls one by one beside its compiled step, by samples."""

from __future__ import annotations

from collections import Counter
from typing import Final

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.sampled_lines import DISPATCHERS, sampled_stacks, sampled_where
from whyidle.analysis.lines.source_lines import at_place, frame_place, own_frame, package_of
from whyidle.analysis.sampling.share_error import sampled_share
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._compiled_reads import has_compiled_steps
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, MOSTLY, Proof
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

REMOVED: Final = (0.5, 0.95)
"""share of this Python that compiling it saves (careful, expected); at best all Python of the step
goes. A step of which an eager optax update of 24 arrays took 87 % became 9.1 times as fast (JAX
0.10, two cores)"""


def prove_eager_operators(facts: Facts) -> Proof | None:
    """Prove operators that are called one by one, where a compiled call takes the gradients."""
    spans, where = eager_calls(facts)
    share = facts.share_of(spans)
    if share < LEAST_SHARE:
        return None
    gains = REMOVED[0] * share, REMOVED[1] * share, facts.share_of(facts.time_of("python"))
    return Proof(
        headline=f"Operators are called one by one{at_place(where)}, outside the compiled step: "
        f"{format_duration(share * facts.step_s)} of each step",
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, "the step without their dispatch"),
        evidence=(
            sampled_share(facts, "Python that calls single operators, share of step", share),
        ),
        confidence=0.85,
        where=where,
        facts=HostFacts(beside=at_place(where)),
    )


def eager_calls(facts: Facts) -> tuple[Intervals, tuple[Place, ...]]:
    """Return when lines of the job ran the framework's Python for single operators, and the lines,
    those with most time first. The line that calls the compiled step is none, nor is Keras' and
    Flax' own Python around it."""
    timeline, host = facts.timeline, facts.timeline.host
    if timeline.framework != "jax" or not facts.on_cpu or not has_compiled_steps(facts):
        return EMPTY, ()
    python, called = facts.time_of("python"), facts.rows_of(Role.OPTIMIZER)
    steps = union_of(host.start[called], host.end[called])
    calling = {"", *map(own_frame, sampled_stacks(facts, steps))}
    whole, eager = Counter[str](), Counter[str]()
    for stack, time in sampled_stacks(facts, python).items():
        whole[line := own_frame(stack)] += time
        if line not in calling and _is_eager(facts, stack.partition(line)[0]):
            eager[line] += time
    found = [line for line, time in eager.most_common() if time > MOSTLY * whole[line]]
    places = (frame_place(line, facts.rank) for line in found)
    spans = sampled_where(facts, lambda stack: own_frame(stack) in found) & python
    return spans, tuple(place for place in places if place)[:MOST_PLACES]


def _is_eager(facts: Facts, inner: str) -> bool:
    """Whether the frames inside a line of the job call an operator, and do not only move data."""
    frames = [frame for frame in inner.split(";") if frame]
    packages = set(map(package_of, frames))
    moves = facts.timeline.vocabulary.plays(Role.MOVING_FRAME, frames[-1] if frames else "")
    return packages & DISPATCHERS == {"jax"} and not moves
