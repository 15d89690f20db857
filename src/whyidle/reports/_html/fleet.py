"""The picture of a fleet: the states of its allocated time."""

from __future__ import annotations

from typing import Final

from whyidle.model.documents.fleet import FLEET_STATES, Account, FleetState
from whyidle.reports._html.element import WIDTH, Markup, tag
from whyidle.reports._number_format import format_percent

FILLS: Final[dict[FleetState, str]] = {
    "useful": "compute", "starved": "host", "idle-held": "sync",
    "idle-reserved": "communication", "failed": "input", "cluster": "transfer",
    "unknown": "unknown",
}  # fmt: skip
"""state -> the bucket whose colour it has: these are distinguishable with every dichromacy"""


def _share(account: Account, state: FleetState) -> float:
    return account.gpu_ms[state] / (account.allocated_gpu_ms or 1)


def draw_account(account: Account) -> Markup:
    """Draw the states of allocated time as a bar."""
    width, height = WIDTH, 30
    at, parts = 0.0, []
    for state in FLEET_STATES:
        length = _share(account, state) * width
        if length:
            title = tag("title", f"{state} {format_percent(_share(account, state))}")
            parts.append(
                tag(
                    "rect", title, x=f"{at:.1f}", y=0, width=f"{length:.1f}", height=height,
                    class_=f"fill-{FILLS[state]}",
                )
            )  # fmt: skip
        at += length
    label = ", ".join(f"{state} {format_percent(_share(account, state))}" for state in FLEET_STATES)
    return tag(
        "svg", parts, viewBox=f"0 0 {width} {height}", width="100%", role="img", aria_label=label,
    )  # fmt: skip
