"""What the eight buckets are called and which colours they have, in every form.

The colours follow Okabe and Ito, "Color Universal Design" (2008), which stay apart under the
common kinds of colour blindness; yellow and grey are darkened until they show on white. A test
simulates the three dichromacies.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from whyidle.model.buckets import Bucket


class Look(NamedTuple):
    """A bucket's ``title``, its ``colour``, and what it ``means`` in plain words."""

    title: str
    colour: str
    means: str


LOOKS: Final[dict[Bucket, Look]] = {
    "compute": Look("Compute", "#009e73", "useful kernels running"),
    "input": Look("Input", "#e69f00", "waiting for the next batch"),
    "transfer": Look("Transfer", "#c9b500", "exposed copies between host and device"),
    "host": Look("Host", "#d55e00", "the CPU launching work, and Python in between"),
    "sync": Look("Sync", "#cc79a7", "refilling the queue after the host waited for the device"),
    "communication": Look("Communication", "#0072b2", "exposed collectives and late ranks"),
    "interruption": Look("Interruption", "#56b4e9", "checkpoints, compilation, allocator, logging"),
    "unknown": Look("Unknown", "#8a8a8a", "idle, and the recording does not show why"),
}
"""in the order in which bars are drawn: useful work first, the unexplained last"""
