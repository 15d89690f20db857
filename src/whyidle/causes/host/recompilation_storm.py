"""The model is compiled anew in step after step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains, interruptions
from whyidle.analysis.intervals import union
from whyidle.causes.host import _watched as watched
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

LEAST_SHARE = 0.01
"""share of the steps below which compiling is not worth a word"""
LEAST_STEPS = 2
"""compiling in one steady step may be the last of the warm-up; in two it is a habit"""
RESIDUAL = (0.4, 0.1, 0.0)
"""what stays of it (careful, expected, hopeful): buckets of lengths still compile once each"""
COMPILING = (
    r"\(dynamo_timed\)|torch/_dynamo/convert_frame\.py|torch/_inductor/compile_fx\.py|"
    r"^compile_fx|^_compile\.compile_inner|triton/(compiler|runtime/build)"
)


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

    What looks alike
    ----------------
    Compiling in the first steps only is ``compile-autotune-warmup``. Steps that are long for
    another reason show no compiler activity. Compiling that left no events is not judged.

    What to do
    ----------
    ``TORCH_LOGS=recompiles`` names the guard. Mark the dimension dynamic, bucket lengths to a few
    sizes, drop the ragged last batch. Do not pad everything to the maximum: that cost more than
    the recompilations it avoided in one report.

    References
    ----------
    PyTorch, "torch.compile, recompilation"; allenai/open-instruct#1445; pytorch/pytorch#188150.
    """
    rows = facts.named(COMPILING)
    if facts.cold_start or not len(rows):
        return None
    steps = _steps_with(facts, rows)
    host = facts.timeline.host
    spent = union(host.start[rows], host.end[rows])
    lost = facts.share_of(facts.part("interruption") & spent)
    if steps < LEAST_STEPS or lost < LEAST_SHARE:
        return None
    gains = [interruptions(lost, residual) for residual in RESIDUAL]
    return Proof(
        headline=f"The model was compiled anew in {steps} of {facts.step_count} steady steps",
        low=gains[0],
        high=lost,
        predicted=from_gains((gains[0], gains[1], gains[2]), "P9: share of compiling"),
        evidence=(
            *watched.reasons(facts),
            Evidence(
                quantity="steady steps with compiler activity",
                value=float(steps),
                unit=None,
                window="steps in scope",
                samples=facts.step_count,
                source="host events",
            ),
            Evidence(
                quantity="device idle while compiling, share of step",
                value=lost,
                unit="ratio",
                window="steps in scope",
                samples=len(rows),
                source="attribution",
            ),
        ),
        confidence=0.85,
        where=watched.compiled(facts)
        or tuple(place for place in [facts.places.of(int(rows[0]))] if place),
    )


def _steps_with(facts: Facts, rows: NDArray[np.int64]) -> int:
    starts = facts.timeline.host.start[rows]
    return len(np.unique(np.searchsorted(facts.steps.start, starts, side="right")))
