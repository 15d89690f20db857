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
    -------------
    Inside the step, the thread that launches GPU work runs Python that launches nothing: metrics,
    NumPy, string building, progress bars, hooks, a debugger.

    Why it costs
    ------------
    The launch queue runs empty, so the GPU is idle until Python launches again.

    How it is detected
    ------------------
    Trace: the device is idle while the launching thread shows no operator and no runtime call for
    at least 0.2 ms, ten times the usual dispatch. Recorded Python frames give the place. The
    recorded steps are replayed with these pauses halved, reduced to a tenth, or removed.

    Watched job on the CPU: between recorded calls, Python holds the interpreter's lock for at least
    3 % of the step, outside loading, reports and garbage collection. Time right after workers hand
    over a batch does not count while the previous batch may be freed. No gain is expected if no
    stack sample shows a line of this Python, or only the line before it, and it takes less than a
    tenth of the step: the framework's own Python looks the same. The same holds for Python that
    mostly ended inside JAX, TensorFlow or Keras. Python that a compiled step could hide belongs to
    ``per-step-host-sync``.

    A sample that waits for the lock shows running Python. A wait of less than 0.06 ms shows the
    framework's own dispatch and counts for the upper bound only. If ranks meet in every step, only
    the least time of any rank counts.

    What looks alike
    ----------------
    Many short pauses are ``launch-bound-small-kernels``. Loops that call operators on one element
    at a time are ``short-operators-in-model``. Additional Python of one rank is ``late-rank``. The
    DataLoader, preprocessing, logging, checkpoints and the garbage collector have causes of their
    own. Recordings with missing events are not judged.

    What to do
    ----------
    Run code that only logs or measures every k-th step, or after launching the next step. Vectorise
    code that training needs, move it to another process, or run it ahead of the step.

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
