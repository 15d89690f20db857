"""How far a watched device had come: marks in a sample of the steps, told by events."""

from __future__ import annotations

import numpy as np

MARK = np.dtype(
    [
        *((name, "<i8") for name in ("begin", "host", "device")),
        ("window", "<u4"),
        ("kind", "u1"),
        ("before", "u1"),
        ("_", "V2"),
    ]
)
"""One mark. ``host``: when the host gave it to the device, ns; ``device``: when the device came to
it, ns since it came to the first mark of its ``window``, on a clock of its own; ``begin``: when
the host began what the mark ends (asked for a batch, say), ns; ``before``: whether the mark before
had completed by then: 1 yes, the device had nothing to do; 0 no; 2 there is none."""

STEPPED, BATCH, BACKWARD, BACKWARD_END, ASKED = 1, 2, 3, 4, 5
"""an optimizer has stepped; a batch was handed over; a backward pass begins; it ends; a batch is
asked for"""
COMPLETED, UNCOMPLETED = 1, 0
EMPTY = np.empty(0, MARK)
EMPTY.setflags(write=False)
