"""Renders a ledger that was replayed under other policies for a terminal."""

from __future__ import annotations

from typing import Final

from whyidle.exporters import _number_format as words
from whyidle.exporters._text_page import Colours, Page
from whyidle.model.fleet_what_if import PolicyResult, Reproduction, WhatIfReport

HEADS: Final = (
    "policy", "GPUs used", "left out", "stranded", "mean wait", "95th", "allocated", "blocked",
)  # fmt: skip


def summarize_what_if(report: WhatIfReport) -> str:
    """What the jobs ask for, and what the cluster has."""
    return (
        f"{report.jobs:,} jobs ask for {report.asked_devices:,} whole GPUs, or "
        f"{report.asked_shares:,.1f} by the shares that they declare; the cluster has "
        f"{report.gpus:,} on {report.nodes:,} nodes."
    )


def describe_reproduction(made: Reproduction) -> str:
    """Whether the simulator makes the waits that happened."""
    if made.why is not None:
        return f"Waits are not predicted: {made.why}."
    return (
        f"The simulator makes today's mean wait of {words.format_seconds(made.recorded_wait_s)} "
        f"as {words.format_seconds(made.simulated_wait_s)} with {made.policy}: an error of "
        f"{words.format_percent(made.error)}."
    )


def result_cells(result: PolicyResult) -> list[str]:
    """The cells of a row."""
    pile, queue = result.pile, result.queue
    return [
        result.name,
        f"{pile.devices:,}",
        f"{pile.left:,} jobs" if pile.left else "none",
        f"{pile.stranded:,.1f}",
        words.format_seconds(queue.mean_wait_s if queue else None),
        words.format_seconds(queue.p95_wait_s if queue else None),
        words.format_percent(queue.allocated if queue else None),
        words.format_percent(queue.blocked if queue else None),
    ]


def describe_slowdowns(report: WhatIfReport) -> list[str]:
    """By how much jobs that share a device take longer, where it is known."""
    return [
        f"{one.name}: jobs that share a device take {one.slowdown[0]:.2f} to "
        f"{one.slowdown[1]:.2f} times as long"
        for one in report.results
        if one.slowdown is not None
    ]


def render_what_if(report: WhatIfReport, *, width: int = 80, colours: Colours | None = None) -> str:
    """Render the results as text."""
    page = Page(width, colours)
    page.write_blank_line()
    page.write_paragraph(summarize_what_if(report), style="bold", indent=2)
    page.write_paragraph(describe_reproduction(report.reproduction), indent=2)
    page.write_blank_line()
    rows = [[page.styled_text(cell) for cell in result_cells(one)] for one in report.results]
    page.table(HEADS, rows)
    page.write_blank_line()
    text = (
        "GPUs used, left out and stranded are of all jobs at once; waits, the allocated share and "
        "the time in which the first job waits although enough GPUs are free elsewhere are of the "
        "jobs in time."
    )
    page.write_paragraph(text, style="dim", indent=2)
    for note in [*describe_slowdowns(report), *report.notes]:
        page.write_paragraph(note, style="dim", label="note ", indent=2)
    for what, count in report.counts.items():
        page.write_paragraph(f"{count:,} {what}", style="dim", label="counted ", indent=2)
    return page.page_text()
