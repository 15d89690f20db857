"""Titles and colours of the eight buckets and of kernels, for every form.

Every two bucket colours are distinguishable with each of the three dichromacies (simulated as in
Machado, Oliveira and Fernandes 2009, distance in Oklab), on white and on near-black; a test
computes both. Forms also name each bucket, so that no meaning depends on colour alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from whyidle.model.buckets import Bucket
from whyidle.model.diagnosis import State


class Look(NamedTuple):
    """Title, colour and meaning of a bucket."""

    title: str
    colour: str
    means: str


LOOKS: Final[dict[Bucket, Look]] = {
    "compute": Look("Compute", "#019688", "the device computes"),
    "input": Look("Input", "#f39116", "waiting for the next batch"),
    "transfer": Look("Transfer", "#766e00", "exposed copies between host and device"),
    "host": Look("Host", "#ea1e48", "Python and the framework launching work"),
    "sync": Look("Sync", "#962b8f", "refilling the queue after the host waited for the device"),
    "communication": Look("Communication", "#3d4adb", "exposed collectives and late ranks"),
    "interruption": Look("Interruption", "#46b0ff", "checkpoints, compilation, allocator, logging"),
    "unknown": Look("Unknown", "#c4c4c4", "idle for a reason that was not recorded"),
}
"""in drawing order"""

KERNELS: Final[dict[str, tuple[str, str]]] = {
    "matrix_product": ("matrix product", "#4e79a7"),
    "convolution": ("convolution", "#6a9fb5"),
    "attention": ("attention", "#a06fa8"),
    "normalisation": ("normalisation", "#5aa469"),
    "elementwise": ("elementwise", "#d9a441"),
    "reduction": ("reduction", "#9c755f"),
    "copy": ("copy on the device", "#a8a29e"),
    "layout": ("layout conversion", "#d37295"),
    "indexing": ("lookup by index", "#e58c8a"),
    "optimizer": ("optimizer", "#86b35a"),
    "expert_routing": ("expert routing", "#c08552"),
    "sampling": ("token sampling", "#7f9c96"),
    "random": ("random numbers", "#b0a160"),
    "communication": ("communication", LOOKS["communication"].colour),
    "h2d": ("copy to the device", LOOKS["transfer"].colour),
    "d2h": ("copy to the host", "#a59b3c"),
    "d2d": ("device-to-device copy", "#c0b8ae"),
    "p2p": ("copy between devices", "#7077c4"),
    "other": ("other", "#8b949e"),
}
"""kernel group or copy direction -> (title, colour)"""

HOST: Final[dict[str, tuple[str, str]]] = {
    "python": ("Python", "#7c8da5"),
    "annotation": ("annotation", "#93a1b5"),
    "op": ("operator", "#8fa3a0"),
    "runtime": ("runtime call", "#a39a8f"),
}
"""kind of host event -> (title, muted colour)"""

BADGES: Final[dict[State, str]] = {
    "starved": "bold white on red",
    "inefficient": "bold black on yellow",
    "saturated": "bold white on green",
    "inconclusive": "bold white on blue",
}
"""state of the verdict -> terminal style"""


def colour_of(group: str) -> str:
    """The colour of a bucket, kernel group, copy direction or kind of host event."""
    if group in LOOKS:
        return LOOKS[group].colour
    return {**KERNELS, **HOST}.get(group, KERNELS["other"])[1]


def title_of(group: str) -> str:
    """The title of a bucket, kernel group, copy direction or kind of host event."""
    if group in LOOKS:
        return LOOKS[group].title
    return {**KERNELS, **HOST}.get(group, (group, ""))[0]


def text_colour(colour: str) -> str:
    """Black or white, whichever has the higher contrast on a colour (at least 4.5 to 1)."""
    return "#000000" if relative_luminance(colour) > 0.179 else "#ffffff"


def relative_luminance(colour: str) -> float:
    """Relative luminance (0-1) as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


LEVELS: Final = 10
"""colours of a heat map"""


def share_colour(share: float) -> str:
    """The colour of a share (0-1) of useful compute: sand to amber to deep teal."""
    stops = ((0.0, "#fbe7c6"), (0.4, "#f0b25f"), (0.7, "#7fb59f"), (1.0, "#04655b"))
    share = min(1.0, max(0.0, share))
    for (low, first), (high, second) in pairwise(stops):
        if share <= high:
            part = (share - low) / (high - low)
            mixed = (
                round(int(first[i : i + 2], 16) * (1 - part) + int(second[i : i + 2], 16) * part)
                for i in (1, 3, 5)
            )
            return "#" + "".join(f"{channel:02x}" for channel in mixed)
    return stops[-1][1]
