"""Pictures of a fleet: the states of its allocated time, and a heat map of its GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from whyidle.model.documents.fleet import FLEET_STATES, Account, FleetReport, FleetState, HeatRow
from whyidle.reports._html.element import WIDTH, Markup, tag
from whyidle.reports._html.ranks import LEVELS
from whyidle.reports._number_format import format_percent

FILLS: Final[dict[FleetState, str]] = {
    "useful": "compute", "starved": "host", "idle-held": "sync",
    "idle-reserved": "communication", "failed": "input", "cluster": "transfer",
    "unknown": "unknown",
}  # fmt: skip
"""state -> the bucket whose colour it has: these are distinguishable with every dichromacy"""
_NAMES: Final = 170


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


def draw_heat(report: FleetReport) -> Markup | None:
    """One row a GPU or node, one column a step: the deeper, the busier; free time is left empty."""
    if not report.heat:
        return None
    columns = max(len(row.allocated) for row in report.heat)
    cell = (WIDTH - _NAMES) / columns
    height = 15 if len(report.heat) > 24 else 20
    parts: list[Markup] = []
    for number, row in enumerate(report.heat):
        top = number * height
        label = row.label if len(row.label) < 24 else f"{row.label[:22]}…"
        parts.append(tag("text", label, x=0, y=top + height - 5, fill="currentColor", font_size=12))
        parts += _heat_cells(row, top, cell, height, report)
    picture = tag(
        "svg", parts, viewBox=f"0 0 {WIDTH} {height * len(report.heat)}", width="100%", role="img",
        aria_label="Busy share of each GPU by hour",
    )  # fmt: skip
    shades = tag(
        "svg",
        [tag("rect", x=n * 14, y=1, width=14, height=11, class_=f"heat{n}") for n in range(LEVELS)],
        width=14 * LEVELS, height=13, role="img", aria_label="0 to 100 %",
    )  # fmt: skip
    unit = "hour" if report.heat_step_h == 1 else f"{report.heat_step_h} hours"
    legend = tag(
        "p", "busy: 0 % ", shades, " 100 % · ", tag("i", class_="dot sync"),
        " allocated and idle · ", tag("i", class_="dot unknown"),
        f" no telemetry · empty: free · a column is one {unit}, UTC", class_="note",
    )  # fmt: skip
    return tag("section", tag("h2", "GPUs by hour"), picture, legend)


def _heat_cells(
    row: HeatRow, top: int, cell: float, height: int, report: FleetReport
) -> Iterable[Markup]:
    """Neighbours of the same look are one rectangle, which keeps pages of large fleets small."""
    looks = [
        _look(busy) if held else "" for held, busy in zip(row.allocated, row.busy, strict=True)
    ]
    begin = 0
    for at in range(1, len(looks) + 1):
        if at < len(looks) and looks[at] == looks[begin]:
            continue
        if looks[begin]:
            shares = [busy for busy in row.busy[begin:at] if busy is not None]
            mean = format_percent(sum(shares) / len(shares)) if shares else "not measured"
            hours = begin * report.heat_step_h
            yield tag(
                "rect", tag("title", f"{row.label}, from hour {hours}: busy {mean}"),
                x=f"{_NAMES + begin * cell:.1f}", y=top + 1, width=f"{(at - begin) * cell:.1f}",
                height=height - 2, class_=looks[begin],
            )  # fmt: skip
        begin = at


def _look(busy: float | None) -> str:
    if busy is None:
        return "fill-unknown"
    if busy < 0.005:
        return "fill-sync"
    return f"heat{min(LEVELS - 1, int(busy * LEVELS))}"
