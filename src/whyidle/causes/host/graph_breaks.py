"""Graph breaks make the compiled model return to eager Python."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.roles import Role

REMOVED = (0.3, 0.7, 1.0)
"""share of the host time that is saved (low, expected, high): some breaks are necessary"""


@cause(
    "Graph breaks split the compiled model",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links", "steps"),
)
def graph_breaks(facts: Facts) -> Proof | None:
    """What it means
    -------------
    ``torch.compile`` could not follow some code (a print, ``.item()``, an ``if`` on data, an
    unknown library). Each step runs several compiled regions with eager Python between them.

    Why it costs
    ------------
    Between regions nothing is fused. Every region checks its guards again.

    How it is detected
    ------------------
    Two or more *different* frames (``Torch-Compiled Region: FRAME/VARIANT``) run in a step.
    The cost is the time between the first and the last of them, outside any region, in which the
    device waits for the host. The steps are replayed with 30, 70 or 100 % less of it (P4).

    What looks alike
    ----------------
    One frame called many times is a repeated block compiled on purpose. Variants of one frame are
    recompilations. PyTorch before 2.4 does not name frames, and jobs on the CPU leave no device
    idle; neither is judged.

    What to do
    ----------
    ``TORCH_LOGS=graph_breaks`` shows the lines. Move prints and ``.item()`` out of the model, set
    ``torch._dynamo.config.capture_scalar_outputs``, use ``torch.cond``, or compile only the
    repeated block.

    References
    ----------
    PyTorch, "torch.compile troubleshooting"; pytorch/torchtitan#2823.
    """
    rows = facts.rows_of(Role.COMPILED_REGION)
    timeline, names = facts.timeline, facts.timeline.host.name[rows]
    count = len({timeline.label(Role.COMPILED_REGION, int(name)) for name in names})
    if count < 2:
        return None
    between = _time_between_regions(facts, rows)
    exposed = facts.kernel_launching.exposed_share(between)
    if exposed < LEAST_SHARE:
        return None
    replay = facts.replay
    runs = [replay.replayed_length(replay.reduce_host_time(between, ratio)) for ratio in REMOVED]
    gains = [max(0.0, 1.0 - run / replay.base_ns) for run in runs]
    frames, idle = "compiled frames per step", "device idle between the frames, share of step"
    return Proof(
        headline=f"Eager code between {count} compiled pieces keeps the GPU waiting "
        f"{format_duration(exposed * facts.step_s)} per step",
        low=min(gains[0], exposed),
        high=exposed,
        predicted=from_gains((gains[0], gains[1], gains[2]), "P4 between compiled regions"),
        evidence=(
            make_evidence(frames, count, None, samples=len(rows), source="operators"),
            make_evidence(idle, exposed, "ratio", samples=facts.step_count),
        ),
        confidence=0.7,
    )


def _time_between_regions(facts: Facts, rows: NDArray[np.int64]) -> Intervals:
    """The time from the first to the last region of each step, outside the regions."""
    host, begins = facts.timeline.host, facts.timeline.host.start[rows]
    step = np.searchsorted(facts.steps.start, begins, side="right")
    regions = [begins[step == number] for number in np.unique(step)]
    spans = union_of(
        np.array([starts.min() for starts in regions]),
        np.array([starts.max() for starts in regions]),
    )
    return spans - union_of(begins, host.end[rows])
