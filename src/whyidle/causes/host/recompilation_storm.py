"""The model is recompiled in step after step."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.sampled_lines import lines_with_share
from whyidle.analysis.lines.source_lines import in_library
from whyidle.analysis.partition import compilation
from whyidle.analysis.sampling.share_error import between_steps
from whyidle.analysis.steps.forecast import from_gains, predict_interruptions
from whyidle.causes.host._modes import UNCOMPILED, active_share
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

LEAST_STEPS = 2
"""compilation in one steady step may end the warm-up; in two it repeats"""
RESIDUAL = (0.4, 0.1, 0.0)
"""share of compilation that stays (low, expected, high gain): each length bucket compiles once"""
DYNAMIC = (0.4, 0.0, 0.0)
"""the same with one compiled model for every length, which compiles in the first step; the compiler
may still specialise some dimensions"""

LOADED = (0.5, 0.2, 0.1)
"""the same with a cache on disk, from which each step loads after tracing again: a step of 707 ms
took 116 and 175 ms in two runs (JAX 0.10, two shared cores), one of 208 ms 50 ms"""


@cause(
    "The model is recompiled repeatedly",
    bucket="interruption",
    needs=("device_events", "steady_steps"),
    watched=("device_time", "own_settings", "steady_steps"),
    min_steps=3,
)
def recompilation_storm(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``torch.compile``, ``tf.function`` or ``jax.jit`` specialised the model to a value (a length, a
    batch size, a Python number) that changes from step to step. It compiles again for each new
    value; ``torch.compile`` gives up at some point and runs eagerly.

    Why it costs
    ------------
    Compilation takes seconds in which the GPU is idle.

    How it is detected
    ------------------
    At least two steady steps contain compiler activity (Dynamo, Inductor, Triton) in which the
    device is idle. P9: ``speed-up = 1 / (1 - f (1 - r))`` with the share f of that time; where a
    function or a number is new each time, r is 0, and steps that compiled nothing show the rest.

    A watched process records each compilation with the guard that failed. Only functions that were
    compiled before count, in at least two steps after the first, anywhere in the run.

    What looks alike
    ----------------
    Compilation in the first steps only is ``compile-autotune-warmup``. Steps that are long for
    another reason show no compiler activity. If most recompilations are for numbers that a graph
    break passes to the code after it (an ``.item()`` in the model), the cause is ``graph-breaks``.
    Compilation without recorded events is not judged, nor that of single operators where JAX's
    compilation is switched off (``debug-mode-left-on``).

    What to do
    ----------
    ``TORCH_LOGS=recompiles`` shows the guard. Mark the dimension as dynamic, bucket lengths to a
    few sizes, and drop the incomplete last batch. Do not pad everything to the maximum: in one
    report that cost more than the recompilations it avoided.

    References
    ----------
    PyTorch, "torch.compile, recompilation"; allenai/open-instruct#1445; pytorch/pytorch#188150.
    """
    if active_share(facts, UNCOMPILED):
        return None
    spent, steps, calls = _compile_time(facts)
    lost = facts.share_of(facts.time_of("interruption") & spent)
    if steps < LEAST_STEPS or lost < LEAST_SHARE or compilation.handed_on(facts):
        return None
    gains, shared, loaded = (
        (lost * (1.0 - most), lost * (1.0 - usual), lost * (1.0 - least))
        for most, usual, least in (RESIDUAL, DYNAMIC, LOADED)
    )
    sure = lost - between_steps(facts, spent)
    removal = from_gains((sure, lost, (1.0 + lost) / 2), "P9: the step without compilation")
    dynamic = from_gains(shared, "P9: compiled once for all lengths")
    cached = from_gains(loaded, "P9: loaded from a folder after tracing")
    renewed, values = compilation.renewed_kind(facts), compilation.is_for_values(facts)
    if renewed or values:
        gains = _gains_without(facts, spent, lost)
        dynamic = removal = from_gains(gains, "P9: steps that compile nothing")
    low, expected, high = gains
    if compilation.compiler_facts(facts):
        where = compilation.compiled_functions(facts, again=True)
        if renewed == "function" or all(in_library(place) for place in where):
            where = (*(place for place, _ in lines_with_share(facts, spent)[:1]), *where)
    else:
        place = facts.places.place_of(int(facts.rows_of(Role.COMPILER_CALL)[0]))
        where = (place,) if place else ()
    idle = "device idle during compilation, share of step"
    return Proof(
        headline=f"The model was recompiled in {steps} of {facts.step_count} "
        f"{'' if facts.cold_start else 'steady '}steps",
        low=low,
        high=max(lost, high),
        predicted=from_gains((low, expected, high), "P9: share of compilation"),
        removal=removal,
        evidence=(
            *compilation.recompile_reasons(facts),
            make_evidence("steps with recompilation", steps, None, samples=facts.step_count),
            make_evidence(idle, lost, "ratio", samples=calls),
        ),
        confidence=0.9 if compilation.compiler_facts(facts) else 0.85,
        where=where,
        facts=HostFacts(
            renewed=renewed,
            dynamic=dynamic,
            cached=cached,
            traced=facts.timeline.framework == "tensorflow",
            python_values=values,
            generators=compilation.is_batch_by_generator(facts),
        ),
    )


def _gains_without(facts: Facts, spent: Intervals, lost: float) -> tuple[float, float, float]:
    """Gains where one compilation is enough: by the steps that hardly compiled, where there are
    any. Otherwise the rest is unknown: new code runs slowly at first."""
    begin, end = (edges[facts.steps_in_scope] for edges in facts.steps.on_host)
    compiling = (spent | facts.time_of("compile")).length_inside(begin, end)
    alone = (end - begin)[2 * compiling < end - begin] / (facts.step_s * 1e9)
    if not len(alone):
        return predict_interruptions(lost, RESIDUAL[1]), lost, 1.0
    usual, most = max(0.0, 1.0 - float(np.median(alone))), max(lost, 1.0 - float(alone.min()))
    return max(0.0, 1.0 - float(alone.max())), usual, most


def _compile_time(facts: Facts) -> tuple[Intervals, int, int]:
    """When the model was recompiled, in how many steps, in how many recorded calls."""
    if compilation.compiler_facts(facts):
        spent, steps = compilation.recompilations(facts)
        return spent, steps, len(spent)
    rows = facts.rows_of(Role.COMPILER_CALL)
    if facts.cold_start or not len(rows):
        return EMPTY, 0, 0
    host = facts.timeline.host
    steps = len(np.unique(np.searchsorted(facts.steps.start, host.start[rows], side="right")))
    return union_of(host.start[rows], host.end[rows]), steps, len(rows)
