"""Python between launches keeps the device waiting."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.lines.source_lines import at_place
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._cpu_jobs import REMOVED, python_overhead
from whyidle.model.cause import LEAST_SHARE, MOST_LOCATED, MOST_PLACES, Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration


@cause(
    "Python code in the step takes too long",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links", "steps"),
    watched=("device_time", "own_settings", "steady_steps"),
    common=True,
)
def python_overhead_in_step(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Inside the step, the thread that launches GPU work runs Python that launches nothing: metrics,
    NumPy, string building, progress bars, hooks, a debugger.

    Why it costs
    ------------
    The queue of launched work runs empty, so the GPU is idle until Python launches again.

    How it is detected
    ------------------
    The device is idle while the launching thread shows no operator and no runtime call for at least
    0.2 ms, ten times the usual dispatch from one operator to the next. Recorded Python frames give
    the place. The gain is a replay of the recorded steps with these pauses halved, in every tenth
    step only, or removed.

    On a watched job on the CPU, the loss is the time between recorded calls in which Python holds
    the interpreter's lock, outside loading, reports and garbage collection, if at least 3 % of the
    step. Time right after workers hand over a batch does not count while the previous batch may be
    freed. If no stack sample shows a line of this Python, or only the line before which it ran, and
    it takes less than a tenth of the step, the expected gain is zero, since the framework's own
    Python looks the same; so it is at any length where it mostly ended inside JAX, TensorFlow or
    Keras. Python that a compiled step would hide if its result were not read is that read's
    (``per-step-host-sync``).

    For ranks that meet in every step, only the time of the rank with the least counts; additional
    time of one rank makes it late.

    A sample that had to wait for the lock shows running Python. One that waited less than 0.06 ms
    shows the framework's own dispatch, and counts for the high end only. A sample gets the lock
    where the job releases it. Where no sample shows a line of the Python itself, whyidle reports
    the line before which it ran.

    What looks alike
    ----------------
    Many short pauses are ``launch-bound-small-kernels``. Loops that call operators on one element
    at a time are ``short-operators-in-model``. Python of a single rank is ``late-rank``.
    The DataLoader, preprocessing, logging, checkpoints and the garbage collector have causes of
    their own. A pause while the GPU still has work queued costs nothing. A recording with missing
    events is not judged.

    What to do
    ----------
    Run code that only logs or measures every k-th step, or after launching the next step. Vectorise
    code that training needs, move it to another process, or run it ahead of the step. Call a
    library's Python less often, or once for all.

    References
    ----------
    TensorFlow, "Optimize TensorFlow GPU performance with the TensorFlow Profiler" (host work
    between steps); pytorch/pytorch#134191 (a forgotten debugger).
    """
    if facts.on_cpu:
        return python_overhead(facts)
    pauses = facts.kernel_launching.pauses
    exposed = facts.kernel_launching.exposed_share(pauses, "launch", "python")
    if exposed < LEAST_SHARE or facts.kernel_launching.is_sampled:
        return None
    replay = facts.replay
    runs = [replay.replayed_length(replay.reduce_host_time(pauses, ratio)) for ratio in REMOVED]
    gains = [max(0.0, 1.0 - run / replay.base_ns) for run in runs]
    where = _costliest_places(facts, pauses)
    lost, longest = format_duration(exposed * facts.step_s), float(pauses.length.max() / 1e9)
    count, idle = len(pauses), "device idle in pauses of the launching thread, share of step"
    return Proof(
        headline=f"Python{at_place(where)} keeps the GPU waiting for {lost} per step",
        low=min(gains[0], exposed),
        high=exposed,
        predicted=from_gains((gains[0], gains[1], gains[2]), "recorded steps replayed without it"),
        evidence=(
            make_evidence(idle, exposed, "ratio", samples=count),
            make_evidence("longest pause", longest, "s", samples=count, source="host events"),
        ),
        confidence=0.85 if where else 0.5,
        where=where,
    )


def _costliest_places(facts: Facts, pauses: Intervals) -> tuple[Place, ...]:
    times: Counter[Place] = Counter()
    for row in np.argsort(-pauses.length)[:MOST_LOCATED]:
        middle = int(pauses.start[row] + pauses.end[row]) // 2
        places = (facts.places.place_at(int(thread), middle) for thread in facts.host.drivers)
        place = next((place for place in places if place), None)
        if place is not None:
            times[place] += int(pauses.length[row])
    return tuple(place for place, _ in times.most_common(MOST_PLACES))
