"""Python code between launches keeps the device waiting."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.source_places import at_place
from whyidle.causes.host import _cpu_jobs as watched
from whyidle.causes.host._tiny_op_proof import one_by_one
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.number_text import format_duration

LEAST_SHARE = 0.01
"""share of the step below which pauses are not worth a word"""
REMOVED = (0.5, 0.9, 1.0)
"""careful: half can go; expected: it runs in every tenth step only; hopeful: not at all"""
MOST_PLACES = 3
LOOKED_UP = 400
"""at most this many pauses, the longest, are located"""


@cause(
    "Python between launches keeps the GPU waiting",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links", "steps"),
    watched=("device_time", "own_settings", "steady_steps"),
    common=True,
)
def python_overhead_in_step(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Inside the step, the thread that feeds the GPU runs Python that launches nothing: metrics,
    NumPy, string building, progress bars, hooks, a debugger.

    Why it costs
    ------------
    The queue of launched work runs dry meanwhile, so the GPU idles until Python is back.

    How it is detected
    ------------------
    Device-idle stretches in which the launching thread shows no operator and no call of the
    runtime for at least 0.2 ms, ten times the usual way from one operator to the next. Python
    frames name the place where stacks were recorded. The gain is the replay of the recorded steps
    with these pauses halved, in every tenth step only, or gone.

    On a watched job whose device is the CPU: time between the recorded calls in which Python held
    the interpreter's lock, outside loading, reports and the collector, at least 3 % of the step.
    Right after workers handed a batch over, as long as freeing the last one may take, none counts.
    Where no stack sample shows a line of its own, at most one before which it ran, and it is less
    than a tenth of the step, nothing is expected of moving it: so runs the framework's.

    Of ranks that meet in every step only what all of them have counts, as much as the one with the
    least has: what one does beyond the others makes it late.

    A look whose thread had to wait for the lock found Python running; one that waited less than
    0.06 ms found the framework's own, on the way to an operator, and counts for the hopeful end
    only. It gets the lock where the job lets go of it: where no look shows a line of the Python
    itself, the line before which it ran is told.

    A line of the user's own, outside the model and its update, at which looks found the lock taken
    for 0.2 ms of a step or more, most of them after a wait of less than 0.06 ms, calls short
    operators one after the other, as where a tensor is filled one element at a time. That time
    counts as computing. Half of what looks found taken is the careful gain, all of it what is
    expected, and all time at these lines the hopeful one.

    What looks alike
    ----------------
    Many short pauses are ``launch-bound-small-kernels``. Python of one rank alone is ``late-rank``.
    Time in the DataLoader, in preprocessing, logging, checkpoints and the garbage collector has
    causes of its own. A pause while the GPU still has work queued costs nothing. A recording that
    misses events is not judged.

    What to do
    ----------
    What only logs or measures: do it every k-th step, or after the next step has been launched.
    What training needs: vectorise it, move it to another process, or make it ahead. Short operators
    one after the other: one call for all, on whole tensors. Python of a library: call it less
    often, or once for all.

    References
    ----------
    TensorFlow, "Optimize TensorFlow GPU performance with the TensorFlow Profiler" (host work
    between steps); pytorch/pytorch#134191 (a forgotten debugger).
    """
    if facts.on_cpu:
        found = (watched.python_overhead(facts), one_by_one(facts))
        return max(filter(None, found), key=lambda proof: proof.predicted.speedup, default=None)
    pauses = facts.launching.pauses
    exposed = facts.launching.exposed_share(pauses, "launch", "python")
    if exposed < LEAST_SHARE or facts.launching.is_sampled:
        return None
    replay = facts.replay
    runs = [replay.replayed_length(replay.reduce_host_time(pauses, ratio)) for ratio in REMOVED]
    gains = [max(0.0, 1.0 - run / replay.base_ns) for run in runs]
    where = _costliest_places(facts, pauses)
    lost_s = exposed * facts.step_s
    at = at_place(where)
    return Proof(
        headline=f"Python{at} keeps the GPU waiting for {format_duration(lost_s)} per step",
        low=min(gains[0], exposed),
        high=exposed,
        predicted=from_gains((gains[0], gains[1], gains[2]), "recorded steps replayed without it"),
        evidence=(
            Evidence(
                quantity="device idle in pauses of the launching thread, share of step",
                value=exposed,
                unit="ratio",
                window="steps in scope",
                samples=len(pauses),
                source="attribution",
            ),
            Evidence(
                quantity="longest pause",
                value=float(pauses.length.max() / 1e9),
                unit="s",
                window="steps in scope",
                samples=len(pauses),
                source="host events",
            ),
        ),
        confidence=0.85 if where else 0.5,
        where=where,
    )


def _costliest_places(facts: Facts, pauses: Intervals) -> tuple[Place, ...]:
    """Where most of the paused time was spent."""
    spent: Counter[tuple[str | None, int | None, str | None]] = Counter()
    for row in np.argsort(-pauses.length)[:LOOKED_UP]:
        middle = int(pauses.start[row] + pauses.end[row]) // 2
        found = (facts.places.place_at(int(thread), middle) for thread in facts.host.drivers)
        place = next((place for place in found if place), None)
        if place is not None:
            spent[place.file, place.line, place.function] += int(pauses.length[row])
    return tuple(
        Place(file=file, line=line, function=function, rank=facts.rank)
        for (file, line, function), _ in spent.most_common(MOST_PLACES)
    )
