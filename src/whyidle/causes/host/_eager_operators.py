"""JAX operators that a watched job calls one by one outside its compiled step, from samples."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import numpy as np

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
from whyidle.analysis.sampling.share_error import share_bounds, share_evidence
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._compiled_reads import has_compiled_steps
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, MOSTLY, Proof
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

PYTHON: Final = ("python", "preprocess")
"""time in which Python runs, also in functions named ``augment`` or ``get_batch``"""
REMOVED: Final = (0.9, 0.97)
"""share of this Python that compiling it saves (lower bound, expected): steps with 52 and 91 % in
eager optax updates became 1.5 to 1.7 and 8 to 11 times as fast (JAX 0.10, busy cores)"""
SINGLE: Final = (0.6, 0.95)
"""the same for a loop over elements of a batch, whose work may stay: augmentation saved 96 % for
pictures of 32 x 32 pixels, and 60 % for 96 x 96"""
CALL: Final = {"jax": (5, 3, 2), "tensorflow": (5, 3, 2), "keras": (14, 9, 6)}
"""cost of calling a compiled step, in calls of single operators (low, expected, high gain): its
arguments, in TensorFlow the hand-over to threads, in Keras also logs and callbacks"""
INSIDE: Final = (0.016, 0.01, 0.006)
"""the same for each operator inside. Steps of 250 to 600 operators took 17 to 57 times as long
untraced, 5 to 15 times with convolutions (TensorFlow 2.21, JAX 0.10, busy cores)"""
WORK: Final = (1.25, 1.0, 0.6)
"""operator time in a compiled step, relative to a burst: fused ones access less memory"""


def traced_gains(facts: Facts, caller: str = "") -> tuple[float, float, float] | None:
    """Return the gain of compiling a step that calls its operators from Python, as a burst recorded
    them. Their work stays (in TensorFlow what exceeds a short operator). The rest becomes the cost
    of a compiled call. None without a burst."""
    name = caller or facts.timeline.framework or ""
    burst, call = facts.burst, CALL.get(name)
    if burst is None or call is None:
        return None
    host = burst.timeline.host
    rows = np.flatnonzero(host.kind == HostKind.OP)
    rows = rows[burst.scope.contains_times(host.start[rows])]
    if not len(rows):
        return None
    length, count = host.end[rows] - host.start[rows], len(rows) / burst.step_count
    lengths = [length[host.name[rows] == name] for name in np.unique(host.name[rows])]
    short = 0.0 if name == "jax" else np.median(length)
    work = sum(len(each) * max(0.0, np.median(each) - short) for each in lengths)
    share = float(work) / burst.scope.total
    low, expected, high = (
        1.0 - min(1.0, share * more + (1.0 - share) * (once / count + inside))
        for more, once, inside in zip(WORK, call, INSIDE, strict=True)
    )
    return low, expected, high


class EagerCalls(NamedTuple):
    """Lines of the job that run the framework's Python for single operators."""

    spans: Intervals = EMPTY
    where: tuple[Place, ...] = ()  # the line that leads to most of it, then those with most time
    single: bool = False  # whether that line is in a loop over elements of a batch


def prove_eager_operators(facts: Facts) -> Proof | None:
    """Prove operators that run one by one although a compiled call computes the gradients."""
    found = find_eager_calls(facts)
    share = facts.share_of(found.spans)
    if share < LEAST_SHARE:
        return None
    least, most = share_bounds(facts, found.spans)
    careful, usual = SINGLE if found.single else REMOVED
    work = facts.burst.bucket_share("compute") if facts.burst else 0.0  # which Python may hide
    won = zip((careful * least, usual * share, most), WORK, strict=True)
    low, expected, high = (max(0.0, min(gain, 1.0 - part * work)) for gain, part in won)
    prepared = facts.time_of("preprocess")
    name = "Python that calls single operators, share of step"
    each = ", for one element at a time" if found.single else ""
    return Proof(
        headline=f"Operators are called one by one{at_place(found.where)}{each}, outside the "
        f"compiled step: {format_duration(share * facts.step_s)} of each step",
        predicted=from_gains((low, expected, high), "the step without their dispatch"),
        evidence=(share_evidence(facts, name, share),),
        confidence=0.85,
        where=found.where,
        bucket="input" if 2 * facts.share_of(found.spans & prepared) > share else "host",
        facts=HostFacts(beside=at_place(found.where), single=found.single),
    )


def find_eager_calls(facts: Facts) -> EagerCalls:
    """Return when lines of the job ran the framework's Python for single operators. The line that
    calls the compiled step does not count, nor does Python of Keras and Flax around it."""
    timeline, host = facts.timeline, facts.timeline.host
    if timeline.framework != "jax" or not facts.on_cpu or not has_compiled_steps(facts):
        return EagerCalls()
    python, called = facts.time_of(*PYTHON), facts.rows_of(Role.OPTIMIZER)
    steps = union_of(host.start[called], host.end[called])
    calling, whole, eager, leading = (Counter[str]() for _ in range(4))
    for stack, time in sampled_stacks(facts, steps).items():
        calling[own_frame(stack)] += time
    for stack, time in sampled_stacks(facts, python - steps).items():
        whole[line := own_frame(stack)] += time
        if line and _is_eager(facts, stack.partition(line)[0]):
            eager[line] += time
            leading.update(dict.fromkeys(own_frames(stack), time))
    found = [x for x, time in eager.most_common() if time > max(MOSTLY * whole[x], calling[x])]
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
    """Whether the frames inside a line of the job call an operator that does not only move data."""
    frames = [frame for frame in inner.split(";") if frame]
    packages = set(map(package_of, frames))
    moves = facts.timeline.vocabulary.plays(Role.MOVING_FRAME, frames[-1] if frames else "")
    return packages & DISPATCHERS == {"jax"} and not moves
