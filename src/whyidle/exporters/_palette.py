"""What the eight buckets are called and which colours they have, in every form.

The colours were searched so that every two stay apart for people with any of the three
dichromacies (simulated as in Machado, Oliveira and Fernandes 2009, distance in Oklab), while each
still shows on white and on near-black; a test computes both. Forms that can, also name each bucket
next to its colour, so that no meaning hangs on colour alone.
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
    "compute": Look("Compute", "#019688", "useful kernels running"),
    "input": Look("Input", "#f39116", "waiting for the next batch"),
    "transfer": Look("Transfer", "#766e00", "exposed copies between host and device"),
    "host": Look("Host", "#ea1e48", "the CPU launching work, and Python in between"),
    "sync": Look("Sync", "#962b8f", "refilling the queue after the host waited for the device"),
    "communication": Look("Communication", "#3d4adb", "exposed collectives and late ranks"),
    "interruption": Look("Interruption", "#46b0ff", "checkpoints, compilation, allocator, logging"),
    "unknown": Look("Unknown", "#c4c4c4", "idle, and the recording does not show why"),
}
"""in the order in which bars are drawn: useful work first, the unexplained last"""
