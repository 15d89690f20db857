"""Python overhead and unfused optimizers in watched jobs on the CPU, from samples and settings.

An update pays for the call, each parameter group, each tensor (Python, and memory that is no longer
cached) and the bytes moved. A fused one still visits each group and tensor. The costs were measured
side by side. The recorded update shows how fast this machine is.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.device.optimizer_work import FUSED
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_freeing import freeing_share
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.costly_calls import time_of_line_causes
from whyidle.analysis.lines.sampled_lines import DISPATCHERS, running_lines, sampled_stacks
from whyidle.analysis.lines.source_lines import called_at, package_of
from whyidle.analysis.ranks.gradient_exchanges import unused_parameter_searches
from whyidle.analysis.sampling.sample_weighting import find_nearest
from whyidle.analysis.sampling.share_error import (
    between_steps,
    share_bounds,
    share_evidence,
    unseen_python,
)
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._compiled_reads import has_compiled_steps, reads_of_steps
from whyidle.causes.host._debug_modes import debugging_time
from whyidle.causes.host._eager_operators import find_eager_calls
from whyidle.model.cause import MOSTLY, NOTICEABLE, Proof
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.process_facts import OptimizerFacts
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

UNLOCATED = 0.10
"""least share if no sample shows a line of this Python, or only the line before it. Samples that
waited for the interpreter's lock indicate Python, a few of them wrongly. Healthy jobs seemed to
spend up to 3.6 % of the step on such Python, and a faulty job 5.5 % besides its cause. Modules and
optimizers also run Python before operators: it took 5.4 % before the loss of a healthy job, in one
of three recordings, and 6.2 % in a faulty job besides its cause. Long Python may show no line if
the lock is handed over after its last one: a loop of a third of the step had none in one of three
recordings"""
REMOVED = (0.5, 0.9, 1.0)
"""lower bound: half is removed; expected: it runs in every tenth step only; upper bound: all"""
WARM_S = (0.0, 0.0, 0.5e-3)
"""seconds by which a shorter update shortens the rest of the step: -0.3 to 0.5 ms (15 networks and
optimizers, ``bench/optimizer_updates.py``)"""


def python_overhead(facts: Facts) -> Proof | None:
    """Prove Python between the calls of a step. Python that another cause explains does not count.

    The bounds include the sampling error of the share (``share_bounds``), the upper one also what
    samples may have missed. The expected gain is zero if no sample shows a line and the share is
    small, or if the Python ended in a framework's own dispatch.
    """
    spans = facts.time_of("python") - debugging_time(facts) - unused_parameter_searches(facts)
    spans = spans - time_of_line_causes(facts) - find_eager_calls(facts).spans
    part = 1.0 - freeing_share(facts, spans) - _hidden_without_reads(facts, spans)
    share = part * facts.share_of(spans)
    least, most = (part * bound for bound in share_bounds(facts, spans))
    if min(share, least) < NOTICEABLE:
        return None
    where, before, library = running_lines(facts, spans)
    most = min(1.0, most + unseen_python(facts, share))
    gains = (REMOVED[0] * least, REMOVED[1] * share, most)
    vague = (before or not where) and (share < UNLOCATED or _is_dispatch(facts, spans))
    if vague:
        gains = (0.0, 0.0, most)
    at = called_at(where, library, before=before)
    return Proof(
        headline=f"Python{at} takes {format_duration(share * facts.step_s)} of each step",
        low=gains[0],
        high=most,
        predicted=from_gains(gains, "the step without half, nine tenths or all of it"),
        removal=None if vague else from_gains((least, share, most), "the step without it"),
        evidence=(
            share_evidence(facts, "Python between calls, share of step", share),
            make_evidence("step time", facts.step_s, "s", samples=facts.step_count, source="steps"),
        ),
        confidence=0.85 if where else 0.5,
        where=where,
        facts=HostFacts(before=before, library=library),
    )


def _hidden_without_reads(facts: Facts, spans: Intervals) -> float:
    """Part of this Python that would run beside the device if no step's result were read."""
    proof = reads_of_steps(facts) if has_compiled_steps(facts) else None
    gain = 1.0 - 1.0 / proof.predicted.speedup if proof else 0.0
    return min(1.0, gain / max(facts.share_of(spans), 1e-9))


def _is_dispatch(facts: Facts, spans: Intervals) -> bool:
    """Whether this Python mostly ended in the code that calls a framework's operators."""
    ended = sampled_stacks(facts, spans, HostKind.PYTHON, after=True)
    inside = (t for stack, t in ended.items() if package_of(stack.split(";", 1)[0]) in DISPATCHERS)
    return sum(inside) > ended.total() / 2


def optimizer_loop(facts: Facts) -> Proof | None:
    """Prove optimizers that loop over many tensors where one fused call would do."""
    looping = _looping_optimizers(facts)
    if not looping:
        return None
    spans, rows = _step_calls(facts, *looping)
    share = facts.share_of(spans)
    taken = share * facts.step_s
    # below one if another optimizer replaced it
    counts = {span: len(_step_calls(facts, span)[1]) / max(facts.step_count, 1) for span in looping}
    updates = [_predict_fused(facts, span, looping[span], counts[span]) for span in looping]
    floors = tuple(sum(costs) for costs in zip(*updates, strict=True))
    tensors = round(sum(counts[span] * looping[span].tensors for span in looping))
    name = " and ".join(dict.fromkeys(optimizer.name for optimizer in looping.values()))
    if (taken - floors[1]) / max(facts.step_s, 1e-9) < NOTICEABLE:
        return None
    low, expected, high = (
        (max(0.0, taken - floor) + min(warm, max(0.0, taken - floor))) / max(facts.step_s, 1e-9)
        for floor, warm in zip(floors, WARM_S, strict=True)
    )
    error, (least, most) = between_steps(facts, spans), _update_bounds(facts, spans, rows)
    gains = (
        max(0.0, low - error - (share - least)),
        expected,
        min(1.0, high + error + (most - share)),
    )
    return Proof(
        headline=f"{name} update{'' if ' and ' in name else 's'} {tensors} tensors one after the "
        f"other: {format_duration(taken)} per step",
        low=low,
        high=high,
        predicted=from_gains(gains, "P4: a fused update at memory speed, and a warmer cache"),
        evidence=(
            make_evidence("optimizer, share of step", share, "ratio", source="calls"),
            make_evidence("tensors", tensors, None, source="param_groups"),
            make_evidence("time of a fused update per step", floors[1], "s", source="model"),
        ),
        confidence=0.8,
        where=_call_place(facts, rows),
        bucket="compute",
        facts=HostFacts(optimizer=name.split()[0], implementation="loop", noun=facts.device_noun),
    )


def _update_bounds(facts: Facts, spans: Intervals, rows: NDArray[np.int64]) -> tuple[float, float]:
    """Interval of the updates' share of the step. Only updates with closures need samples."""
    host, share = facts.timeline.host, facts.share_of(spans)
    calls = union_of(host.start[rows], host.end[rows])
    apart = (calls - spans).total > 0
    return share_bounds(facts, spans, calls) if apart else (share, share)


def _call_place(facts: Facts, rows: NDArray[np.int64]) -> tuple[Place, ...]:
    """The line of the longest call, preferably of those in which a sample shows the update."""
    host = facts.timeline.host
    samples, foreign = _sampled_calls(facts, union_of(host.start[rows], host.end[rows]))
    times = host.start[samples[~foreign]]
    own = np.searchsorted(times, host.start[rows]) < np.searchsorted(times, host.end[rows])
    rows = rows[own] if own.any() else rows
    longest = rows[np.argsort(host.start[rows] - host.end[rows])[:20]].tolist()
    return tuple(filter(None, map(facts.places.place_of_samples, longest)))[:1]


def _step_calls(facts: Facts, *names: str) -> tuple[Intervals, NDArray[np.int64]]:
    """Time and rows of optimizer steps with these span names, without closures."""
    host, rows = facts.timeline.host, facts.rows_of(Role.OPTIMIZER)
    rows = rows[[facts.timeline.names[i] in names for i in host.name[rows]]]
    calls = union_of(host.start[rows], host.end[rows])
    return calls - _called_back(facts, calls), rows


def _called_back(facts: Facts, calls: Intervals) -> Intervals:
    """When an optimizer's step ran other code: trainers clip and log gradients in its closure,
    after the backward pass. A call without a sample equals the nearest call with one."""
    host = facts.timeline.host
    rows, foreign = _sampled_calls(facts, calls)
    if not foreign.any():
        return EMPTY
    unseen = (calls & facts.scope) - union_of(host.start[rows], host.end[rows])
    near = find_nearest(host.start[rows], unseen.start)
    theirs = rows[foreign]
    return union_of(host.start[theirs], host.end[theirs]) | unseen.select(foreign[near])


def _sampled_calls(facts: Facts, calls: Intervals) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of samples in these calls, in order of time, and whether each shows other code."""
    host, plays = facts.timeline.host, facts.timeline.vocabulary.plays
    rows = np.flatnonzero((host.detail >= 0) & is_among(host.thread, facts.host.drivers))
    rows = rows[calls.contains_times(host.start[rows])]
    rows = rows[np.argsort(host.start[rows], kind="stable")]
    foreign = []
    for number in np.unique(host.detail[rows]):
        frames = facts.timeline.details[number].stack.split(";")
        at = [i for i, frame in enumerate(frames) if plays(Role.OPTIMIZER_FRAME, frame)]
        inner = frames[: at[-1]] if at else []
        inner = [x for x in inner if package_of(x).partition(".")[0] not in sys.stdlib_module_names]
        if not all(plays(Role.FRAMEWORK_CODE, frame) for frame in inner):
            foreign.append(number)
    return rows, np.isin(host.detail[rows], foreign)


def _predict_fused(facts: Facts, span: str, optimizer: OptimizerFacts, count: float) -> list[float]:
    """Seconds per step that this optimizer's updates would take if fused: low, expected, high."""
    taken_s = facts.share_of(_step_calls(facts, span)[0]) * facts.step_s / max(count, 1e-9)
    return [count * cost for cost in fused_update_s(optimizer, taken_s)]


def _looping_optimizers(facts: Facts) -> dict[str, OptimizerFacts]:
    """Optimizers that could be fused but are not, by the span name of their steps."""
    timeline = facts.timeline
    first = timeline.process.optimizer or OptimizerFacts()
    spans = [
        timeline.names[i]
        for i in timeline.names_of(Role.OPTIMIZER)
        if timeline.label(Role.OPTIMIZER, int(i)) == first.name
    ]
    known = {**dict.fromkeys(spans[:1], first), **timeline.process.optimizers}
    return {
        span: optimizer
        for span, optimizer in known.items()
        if optimizer.name in FUSED and optimizer.tensors
        if not (optimizer.fused or optimizer.differentiable)
        if optimizer.unread <= MOSTLY * optimizer.elements  # else ``dense-indexing-gradients``
    }


class Estimate(NamedTuple):
    """One quantity at the low, expected and high end of the gain."""

    low: float
    expected: float
    high: float


class Costs(NamedTuple):
    """Costs of one implementation (us): of a parameter group, and of a tensor."""

    group: float
    tensor: float


class Update(NamedTuple):
    """Costs of an update of 32-bit numbers, by implementation."""

    call_us: float  # of the call, in any form
    loop: Costs
    foreach: Costs
    fused: Costs
    unfused_bytes: int  # per element that a loop, or foreach, moves
    fused_bytes: int  # per element that a fused update moves


UPDATES: Final = {
    "Adam": Update(50, Costs(7, 25), Costs(45, 18), Costs(13, 7.7), 72, 28),
    "AdamW": Update(50, Costs(8, 29), Costs(45, 20), Costs(13, 8.5), 80, 28),
    "Adagrad": Update(40, Costs(2, 18), Costs(25, 16), Costs(11, 6.5), 44, 20),
    "SGD": Update(30, Costs(1, 10.7), Costs(11, 9.3), Costs(8, 5.2), 32, 20),
}
"""from ``bench/optimizer_updates.py``: 4 to 96 tensors of 900 to 540,000 elements, in one group or
one each, in training steps (PyTorch 2.13, one thread). Bytes are counted from the operators"""
PLAIN = Update(30, Costs(1, 4.3), Costs(8.6, 2.8), Costs(9, 2.4), 12, 12)
"""SGD without momentum has one operator per tensor and nothing to fuse"""
TENSOR = Estimate(1.4, 1.0, 0.5)
"""cost of a tensor in a fused update, relative to the table. Half of it was measured on an idle
machine with tiny tensors, which stay in the core's cache"""
TRAFFIC = Estimate(1.6, 1.2, 0.75)
"""the same for memory traffic: the next operator of a loop finds the tensor in the cache"""
BYTES_PER_S = 25e9
"""memory traffic of one core: 24 to 33 GB/s for 1 to 42 MB of parameters, gradients and states"""


def fused_update_s(optimizer: OptimizerFacts, taken_s: float) -> Estimate:
    """Seconds of a fused update of an optimizer whose update took ``taken_s``.

    If an update is slower than the table, the machine may be slow, which slows a fused one as well
    (low end). Or it waits for memory that it allocates, which a fused one does not (high end). The
    expected update has slow calls, but not slow memory traffic.
    """
    plain = optimizer.name == "SGD" and not optimizer.momentum
    update = PLAIN if plain else UPDATES[optimizer.name]
    present = update.foreach if optimizer.foreach else update.loop
    unit_s = optimizer.elements / BYTES_PER_S
    slower = taken_s / (
        _calls_s(optimizer, update, present, present.tensor) + update.unfused_bytes * unit_s
    )
    allocates = update.unfused_bytes > update.fused_bytes
    at_most = min(slower, 1.0) if allocates else slower
    times = [
        calls * _calls_s(optimizer, update, update.fused, tensor * update.fused.tensor)
        + bytes_ * traffic * update.fused_bytes * unit_s
        for calls, bytes_, tensor, traffic in zip(
            (slower, slower, at_most), (slower, at_most, at_most), TENSOR, TRAFFIC, strict=True
        )
    ]
    return Estimate(*times)


def _calls_s(optimizer: OptimizerFacts, update: Update, costs: Costs, tensor_us: float) -> float:
    """Seconds of an update without its memory traffic."""
    groups_us = optimizer.groups * costs.group
    return (update.call_us + groups_us + optimizer.tensors * tensor_us) * 1e-6
