"""What recording itself adds to the host's time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.burst_choice import slowed_by
from whyidle.analysis.codes import is_among
from whyidle.analysis.step_scope import StepScope
from whyidle.model.timeline import HostKind

OP_COST_S = 0.6e-6
SHAPES_COST_S = 1.0e-6
FRAME_COST_S = 0.2e-6
"""what recording one operator, its shapes, one runtime call (as an operator) or one Python frame is
assumed to add to the host's time. PyTorch 2.13 takes 0.3 to 0.7 us per operator, with or without
shapes, and 0.2 to 0.35 us per frame (bench/recording.py); profilers of 2020 took up to 10 us
(facebookresearch/dlrm#197: 20 ms for a step of some thousand operators). What is told from these
figures is told for half and for one and a half of them as well."""


def recording_cost_s(kinds: NDArray[np.uint8], *, shapes: bool) -> float:
    """Seconds that recording host events of these kinds took, with or without their shapes."""
    counts = np.bincount(kinds, minlength=len(HostKind))
    operators = counts[HostKind.OP] * (OP_COST_S + (SHAPES_COST_S if shapes else 0.0))
    calls = counts[HostKind.RUNTIME] * OP_COST_S
    return float(operators + calls + counts[HostKind.PYTHON] * FRAME_COST_S)


def share_of_recording(facts: StepScope) -> float:
    """An estimate of how much of the step the recording itself cost on the host (0-1): of a burst
    on a device at least what its steps took longer than those around it."""
    host = facts.timeline.host
    inside = facts.scope.contains_times(host.start) & is_among(host.thread, facts.host.drivers)
    cost = recording_cost_s(
        host.kind[inside], shapes="shapes" in facts.timeline.available_signals()
    )
    return float(min(max(cost / max(facts.scope_s, 1e-9), measured_share(facts)), 0.9))


def measured_share(facts: StepScope) -> float:
    """The same as measured: what the steps of a burst took longer than those around it; 0 where
    nothing is known of those."""
    told = facts.timeline.burst if len(facts.timeline.device) else None
    return slowed_by(told) if told else 0.0
