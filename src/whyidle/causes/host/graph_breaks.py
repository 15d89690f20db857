"""The compiled model falls back to Python again and again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.causes.host import _graph_breaks_cpu
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.number_text import format_duration
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step below which the breaks are not worth a word"""
REMOVED = (0.3, 0.7, 1.0)
"""careful, expected, hopeful: some breaks are there for a reason"""


@cause(
    "Graph breaks cut the compiled model into pieces",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links", "steps"),
    watched=("device_time", "own_settings", "steady_steps"),
)
def graph_breaks(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``torch.compile`` could not follow some code (a print, ``.item()``, an ``if`` on data, an
    unknown library), so each step runs several compiled regions with eager Python between them.

    Why it costs
    ------------
    Between regions nothing is fused, every operator is dispatched one by one, and every region
    checks its guards anew.

    How it is detected
    ------------------
    Two or more *different* frames (``Torch-Compiled Region: FRAME/VARIANT``) run in a step.
    Lost time is device-idle time of the host between the first and the last of them, outside any
    region. The gain is the replay of the recorded steps with a part of that host time gone (P4 on
    the broken part).

    On a watched job whose device is the CPU, Dynamo itself tells where it broke a graph, and why;
    stack samples tell how long the broken functions run eager code between their compiled pieces
    (all of it at most is saved), and the pieces (a tenth of their work, up to four tenths, is what
    one graph instead of several is taken to save). Breaks in PyTorch's own optimizers do not count.

    What looks alike
    ----------------
    One frame called many times is a repeated block compiled on purpose. Variants of one frame are
    recompilations. Recordings of PyTorch before 2.4 do not name frames, and are not judged.

    What to do
    ----------
    ``TORCH_LOGS=graph_breaks`` names the lines. Move prints and ``.item()`` out of the model,
    set ``torch._dynamo.config.capture_scalar_outputs``, use ``torch.cond``, or compile the
    repeated block alone.

    References
    ----------
    PyTorch, "torch.compile troubleshooting"; pytorch/torchtitan#2823.
    """
    if facts.on_cpu:
        return _graph_breaks_cpu.graph_breaks(facts)
    rows, frames = _compiled_regions(facts)
    if len(np.unique(frames)) < 2:
        return None
    between = _time_between_regions(facts, rows)
    exposed = facts.launching.exposed_share(between)
    if exposed < LEAST_SHARE:
        return None
    replay = facts.replay
    runs = [replay.replayed_length(replay.reduce_host_time(between, ratio)) for ratio in REMOVED]
    gains = [max(0.0, 1.0 - run / replay.base_ns) for run in runs]
    count = len(np.unique(frames))
    return Proof(
        headline=f"{count} compiled pieces per step, with eager code between them that keeps the "
        f"GPU waiting {format_duration(exposed * facts.step_s)}",
        low=min(gains[0], exposed),
        high=exposed,
        predicted=from_gains((gains[0], gains[1], gains[2]), "P4 between compiled regions"),
        evidence=(
            Evidence(
                quantity="compiled frames per step",
                value=float(count),
                unit=None,
                window="steps in scope",
                samples=len(rows),
                source="operators",
            ),
            Evidence(
                quantity="device idle between them, share of step",
                value=exposed,
                unit="ratio",
                window="steps in scope",
                samples=facts.step_count,
                source="attribution",
            ),
        ),
        confidence=0.7,
    )


def _compiled_regions(facts: Facts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows, timeline = facts.rows_of(Role.COMPILED_REGION), facts.timeline
    numbers = [timeline.label(Role.COMPILED_REGION, int(name)) for name in timeline.host.name[rows]]
    return rows, np.array([int(number) for number in numbers], dtype=np.int64)


def _time_between_regions(facts: Facts, rows: NDArray[np.int64]) -> Intervals:
    """From the first to the last region of each step, outside the regions."""
    host, steps = facts.timeline.host, facts.steps
    step = np.searchsorted(steps.start, host.start[rows], side="right")
    starts, ends = [], []
    for number in np.unique(step):
        mine = rows[step == number]
        starts.append(host.start[mine].min())
        ends.append(host.start[mine].max())
    spans = union_of(np.array(starts), np.array(ends))
    return spans - union_of(host.start[rows], host.end[rows])
