"""Operators of JAX that a watched job calls one by one beside its compiled step, by samples."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.sampled_lines import DISPATCHERS, sampled_stacks, sampled_where
from whyidle.analysis.lines.source_lines import (
    at_place,
    frame_place,
    own_frame,
    own_frames,
    package_of,
)
from whyidle.analysis.sampling.share_error import share_evidence
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._compiled_reads import has_compiled_steps
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, MOSTLY, Proof
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

PYTHON: Final = ("python", "preprocess")
"""time in which Python runs: what a function called ``augment`` or ``get_batch`` does, too"""
REMOVED: Final = (0.6, 0.95)
"""share of this Python that compiling it saves (careful, expected); at best all Python of the step
goes. A step of which an eager optax update of 24 arrays took 87 % became 9.1 times as fast. Where
pictures were augmented one by one, 96 % was saved with 32 x 32 pixels, and 60 % with 96 x 96, whose
work stays (JAX 0.10, two cores)"""


class EagerCalls(NamedTuple):
    """Lines of the job that run the framework's Python for single operators."""

    spans: Intervals = EMPTY
    where: tuple[Place, ...] = ()  # the line that leads to most of it, then those with most time
    single: bool = False  # whether that line is in a loop over elements of a batch


def prove_eager_operators(facts: Facts) -> Proof | None:
    """Prove operators that are called one by one, where a compiled call takes the gradients."""
    found = find_eager_calls(facts)
    share = facts.share_of(found.spans)
    if share < LEAST_SHARE:
        return None
    gains = REMOVED[0] * share, REMOVED[1] * share, facts.share_of(facts.time_of(*PYTHON))
    prepared = facts.time_of("preprocess")
    name = "Python that calls single operators, share of step"
    each = ", for one element at a time" if found.single else ""
    return Proof(
        headline=f"Operators are called one by one{at_place(found.where)}{each}, outside the "
        f"compiled step: {format_duration(share * facts.step_s)} of each step",
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, "the step without their dispatch"),
        evidence=(share_evidence(facts, name, share),),
        confidence=0.85,
        where=found.where,
        bucket="input" if 2 * facts.share_of(found.spans & prepared) > share else "host",
        facts=HostFacts(beside=at_place(found.where), single=found.single),
    )


def find_eager_calls(facts: Facts) -> EagerCalls:
    """Return when lines of the job ran the framework's Python for single operators. The line that
    calls the compiled step is none, nor is Keras' and Flax' own Python around it."""
    timeline, host = facts.timeline, facts.timeline.host
    if timeline.framework != "jax" or not facts.on_cpu or not has_compiled_steps(facts):
        return EagerCalls()
    python, called = facts.time_of(*PYTHON), facts.rows_of(Role.OPTIMIZER)
    steps = sampled_stacks(facts, union_of(host.start[called], host.end[called]))
    calling = {"", *map(own_frame, steps)}
    whole, eager, leading = Counter[str](), Counter[str](), Counter[str]()
    for stack, time in sampled_stacks(facts, python).items():
        whole[line := own_frame(stack)] += time
        if line not in calling and _is_eager(facts, stack.partition(line)[0]):
            eager[line] += time
            leading.update(dict.fromkeys(own_frames(stack), time))
    found = [line for line, time in eager.most_common() if time > MOSTLY * whole[line]]
    most = [line for line, time in leading.items() if time > MOSTLY * eager.total()]
    most.sort(key=leading.__getitem__)  # the innermost first
    loops = {line.loop for line in facts.lines} - {None}
    looped = [line for line in most if frame_place(line, facts.rank) in loops]
    first = next(iter(looped or most), "")
    places = (frame_place(line, facts.rank) for line in dict.fromkeys([first, *found]))
    where = tuple(place for place in places if place)[:MOST_PLACES]
    through = first if looped else "-"  # and what it moves for each element
    spans = sampled_where(facts, lambda x: own_frame(x) in found or through in own_frames(x))
    return EagerCalls(spans & python, where, bool(looped))


def _is_eager(facts: Facts, inner: str) -> bool:
    """Whether the frames inside a line of the job call an operator, and do not only move data."""
    frames = [frame for frame in inner.split(";") if frame]
    packages = set(map(package_of, frames))
    moves = facts.timeline.vocabulary.plays(Role.MOVING_FRAME, frames[-1] if frames else "")
    return packages & DISPATCHERS == {"jax"} and not moves
