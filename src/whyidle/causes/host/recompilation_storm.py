"""The model is compiled anew in step after step."""

from __future__ import annotations

import numpy as np

from whyidle.analysis import compilation
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains, predict_interruptions
from whyidle.analysis.intervals import EMPTY, Intervals, union_of
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the steps below which compiling is not worth a word"""
LEAST_STEPS = 2
"""compiling in one steady step may be the last of the warm-up; in two it is a habit"""
RESIDUAL = (0.4, 0.1, 0.0)
"""what stays of it (careful, expected, hopeful): buckets of lengths still compile once each"""
DYNAMIC = (0.4, 0.0, 0.0)
"""the same where one compiled model serves every length: it compiles once, in the first step. Some
dimensions the compiler fixes all the same"""


@cause(
    "The model is compiled again and again",
    bucket="interruption",
    needs=("device_events", "steady_steps"),
    watched=("device_time", "own_settings", "steady_steps"),
    min_steps=3,
)
def recompilation_storm(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``torch.compile`` specialised the model to a value (a length, a batch size, a Python number)
    that changes from step to step, so it compiles again for each new one, until it gives up and
    runs eagerly.

    Why it costs
    ------------
    Compiling takes seconds in which the GPU idles.

    How it is detected
    ------------------
    Compiler activity (Dynamo, Inductor, Triton) inside at least two steady steps, and the device
    idle during it. P9: ``speed-up = 1 / (1 - f (1 - r))`` with the share f of that time.

    A watched process notes each compilation, with the guard that did not hold: only functions
    compiled before count, in at least two steps behind the first, wherever in the run they are.

    What looks alike
    ----------------
    Compiling in the first steps only is ``compile-autotune-warmup``. Steps that are long for
    another reason show no compiler activity. Where most of it is for numbers that a graph break
    hands on to the code behind it (an ``.item()`` in the model), that break is to blame:
    ``graph-breaks``. Compiling that left no events is not judged.

    What to do
    ----------
    ``TORCH_LOGS=recompiles`` names the guard. Mark the dimension dynamic, bucket lengths to a few
    sizes, drop the ragged last batch. Do not pad everything to the maximum: that cost more than
    the recompilations it avoided in one report.

    References
    ----------
    PyTorch, "torch.compile, recompilation"; allenai/open-instruct#1445; pytorch/pytorch#188150.
    """
    spent, steps, calls = _compile_time(facts)
    lost = facts.share_of(facts.time_of("interruption") & spent)
    if steps < LEAST_STEPS or lost < LEAST_SHARE or compilation.handed_on(facts):
        return None
    gains = [predict_interruptions(lost, residual) for residual in RESIDUAL]
    careful, expected, hopeful = (predict_interruptions(lost, residual) for residual in DYNAMIC)
    return Proof(
        headline=f"The model was compiled anew in {steps} of {facts.step_count} "
        f"{'' if facts.cold_start else 'steady '}steps",
        low=gains[0],
        high=lost,
        predicted=from_gains((gains[0], gains[1], gains[2]), "P9: share of compiling"),
        evidence=(
            *compilation.recompile_reasons(facts),
            make_evidence("steps that compile anew", steps, None, samples=facts.step_count),
            make_evidence(
                "device idle while compiling, share of step", lost, "ratio", samples=calls
            ),
        ),
        confidence=0.9 if compilation.compiler_facts(facts) else 0.85,
        where=_compile_places(facts),
        facts=HostFacts(
            dynamic=from_gains((careful, expected, hopeful), "P9: compiled once for all lengths")
        ),
    )


def _compile_time(facts: Facts) -> tuple[Intervals, int, int]:
    """When it compiled anew, in how many steps, in how many recorded calls."""
    if compilation.compiler_facts(facts):
        spent, steps = compilation.recompilations(facts)
        return spent, steps, len(spent)
    rows = facts.rows_of(Role.COMPILER_CALL)
    if facts.cold_start or not len(rows):
        return EMPTY, 0, 0
    host = facts.timeline.host
    steps = len(np.unique(np.searchsorted(facts.steps.start, host.start[rows], side="right")))
    return union_of(host.start[rows], host.end[rows]), steps, len(rows)


def _compile_places(facts: Facts) -> tuple[Place, ...]:
    if compilation.compiler_facts(facts):
        return compilation.compiled_functions(facts, again=True)
    place = facts.places.place_of(int(facts.rows_of(Role.COMPILER_CALL)[0]))
    return (place,) if place else ()
