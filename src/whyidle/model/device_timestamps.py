"""Device marks: the progress of a watched device in a sample of its steps, measured by events."""

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
"""One mark. ``host``: when the host enqueued it, ns; ``device``: when the device reached it, ns
since the first mark of its ``window``, on the device's clock; ``begin``: when the host began what
the mark ends (such as a batch request), ns; ``before``: whether the previous mark had completed by
then: 1 yes, the device was idle; 0 no; 2 there is none."""

STEPPED, BATCH, BACKWARD, BACKWARD_END, ASKED = 1, 2, 3, 4, 5
"""an optimizer stepped; a batch arrived; a backward pass begins; it ends; a batch is requested"""
COMPLETED, UNCOMPLETED = 1, 0
EMPTY = np.empty(0, MARK)
EMPTY.setflags(write=False)
