"""What recording itself adds to the host's time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import HostKind

OP_COST_S = 0.6e-6
SHAPES_COST_S = 1.0e-6
FRAME_COST_S = 0.2e-6
"""what recording one operator (0.6 us, 1.6 us with shapes), one runtime call and one Python frame
adds to the host's time; measured with PyTorch 2.13 on a CPU, see docs/results/performance.md"""


def recording_cost_s(kinds: NDArray[np.uint8], *, shapes: bool) -> float:
    """Seconds that recording host events of these kinds took, with or without their shapes."""
    counts = np.bincount(kinds, minlength=len(HostKind))
    operators = counts[HostKind.OP] * (OP_COST_S + (SHAPES_COST_S if shapes else 0.0))
    calls = counts[HostKind.RUNTIME] * OP_COST_S
    return float(operators + calls + counts[HostKind.PYTHON] * FRAME_COST_S)
