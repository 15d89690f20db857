"""The model is recompiled in many steps."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.analysis.lines.sampled_lines import lines_with_share
from whyidle.analysis.lines.source_lines import in_library
from whyidle.analysis.partition import compilation
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._modes import UNCOMPILED, active_share
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

LEAST_STEPS = 2
"""compilation in one steady step may be the end of the warm-up"""
PADDED = (1.5, 1.1, 1.0)
"""step with the batch padded to the next of a few lengths, relative to now (low, expected, high
gain). Two lengths per doubling add 18 % on average, twice that to attention"""
DYNAMIC = (0.4, 0.0, 0.0)
"""share of compilation that stays with dynamic shapes, as some dimensions may be specialised"""
LOADED = (0.5, 0.2, 0.1)
"""the same if each step traces again and loads from a cache on disk: a step of 707 ms took 116 and
175 ms in two runs (JAX 0.10, two shared cores), one of 208 ms took 50 ms"""


@cause(
    "The model is recompiled repeatedly",
    bucket="interruption",
    needs=("device_events", "steady_steps"),
    watched=("device_time", "own_settings", "steady_steps"),
    min_steps=3,
    direct=True,
)
def recompilation_storm(facts: Facts) -> Proof | None:
    """What it means
    -------------
    ``torch.compile``, ``tf.function`` or ``jax.jit`` specialised the model to a value (a length, a
    batch size, a Python number) that changes from step to step. Each new value triggers a
    compilation. At some point ``torch.compile`` gives up and runs eagerly.

    Why it costs
    ------------
    Compilation takes seconds in which the GPU is idle.

    How it is detected
    ------------------
    Trace: the device is idle during compiler activity (Dynamo, Inductor, Triton) in at least two
    steady steps. The prediction keeps the steps that compiled nothing. If all steps compiled, it
    keeps the rest of each step. The upper bound keeps half of this rest, because new code runs
    slowly at first. Padding to a few lengths is expected to add 10 %, at most 50 %.

    A watched process records each compilation with the guard that failed. Only functions that were
    compiled before count, in at least two steps after the first, anywhere in the run.

    What looks alike
    ----------------
    Compilation in the first steps only is ``compile-autotune-warmup``. If JAX's compilation is
    switched off, single operators are compiled: ``debug-mode-left-on``. Compilation without
    recorded events is not judged.

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
    if steps < LEAST_STEPS or lost < LEAST_SHARE:
        return None
    shared, loaded = (
        (lost * (1.0 - most), lost * (1.0 - usual), lost * (1.0 - least))
        for most, usual, least in (DYNAMIC, LOADED)
    )
    dynamic = from_gains(shared, "P9: compiled once for all lengths")
    cached = from_gains(loaded, "P9: loaded from a folder after tracing")
    renewed, values = compilation.renewed_kind(facts), compilation.is_for_values(facts)
    gains = _gains_without(facts, spent, lost)
    removal = predicted = from_gains(gains, "P9: steps without compilation")
    if renewed or values:
        dynamic = removal
    else:
        padded = [1.0 - (1.0 - g) * work for g, work in zip(gains, PADDED, strict=True)]
        predicted = from_gains((padded[0], padded[1], padded[2]), "P9: the same, padded")
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
        low=gains[0],
        high=gains[2],
        predicted=predicted,
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
    """Gains without compilation, from the steps that hardly compiled. If there are none, the rest
    of all steps counts, which is partly unnecessary because new code runs slowly at first."""
    begin, end = (edges[facts.steps_in_scope] for edges in facts.steps.on_host)
    compiling = (spent | facts.time_of("compile")).length_inside(begin, end)
    rest, alone = end - begin - compiling, 2 * compiling < end - begin
    left = (end - begin if alone.any() else rest)[alone | ~alone.any()].sum()
    usual = min(1.0, 1.0 - left / max(alone.sum() or len(rest), 1) / (facts.step_s * 1e9))
    if alone.any():
        return max(0.0, min(lost, usual)), max(0.0, usual), max(lost, usual)
    return usual, usual, (1.0 + usual) / 2


def _compile_time(facts: Facts) -> tuple[Intervals, int, int]:
    """When the model was recompiled, and in how many steps and recorded calls."""
    if compilation.compiler_facts(facts):
        spent, steps = compilation.recompilations(facts)
        return spent, steps, len(spent)
    rows = facts.rows_of(Role.COMPILER_CALL)
    if facts.cold_start or not len(rows):
        return EMPTY, 0, 0
    host = facts.timeline.host
    steps = len(np.unique(np.searchsorted(facts.steps.start, host.start[rows], side="right")))
    return union_of(host.start[rows], host.end[rows]), steps, len(rows)
