"""Host time that recording itself adds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.steps.burst_choice import slowed_by
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.timeline import HostKind

OP_COST_S = 0.6e-6
SHAPES_COST_S = 1.0e-6
FRAME_COST_S = 0.2e-6
"""assumed host time to record an operator, its shapes, a runtime call (as an operator) or a Python
frame. PyTorch 2.13 takes 0.3 to 0.7 us per operator and 0.2 to 0.35 us per frame
(bench/recording.py), profilers of 2020 up to 10 us (facebookresearch/dlrm#197). Results are also
computed for half and for one and a half of these figures"""


def recording_cost_s(kinds: NDArray[np.uint8], *, shapes: bool) -> float:
    """Return the seconds to record host events of these kinds, with or without their shapes."""
    counts = np.bincount(kinds, minlength=len(HostKind))
    operators = counts[HostKind.OP] * (OP_COST_S + (SHAPES_COST_S if shapes else 0.0))
    calls = counts[HostKind.RUNTIME] * OP_COST_S
    return float(operators + calls + counts[HostKind.PYTHON] * FRAME_COST_S)


def share_of_recording(facts: StepScope) -> float:
    """Estimate the share of the step that the recording cost on the host (0-1)."""
    host = facts.timeline.host
    inside = facts.scope.contains_times(host.start) & is_among(host.thread, facts.host.drivers)
    shapes = "shapes" in facts.timeline.available_signals()
    cost = recording_cost_s(host.kind[inside], shapes=shapes)
    return float(min(max(cost / max(facts.scope_s, 1e-9), measured_share(facts)), 0.9))


def measured_share(facts: StepScope) -> float:
    """Return how much longer a burst's steps took than those around it, as share."""
    context = facts.timeline.burst if len(facts.timeline.device) else None
    return slowed_by(context) if context else 0.0
