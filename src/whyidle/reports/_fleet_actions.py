"""Renders what a policy would do, for a terminal."""

from __future__ import annotations

import shlex

from whyidle.model.documents.fleet_policy import ActionPlan
from whyidle.reports._text_page import Colours, Page


def render_plan(
    plan: ActionPlan, *, acts: bool, width: int = 80, colours: Colours | None = None
) -> str:
    """Render a plan as text."""
    page = Page(width, colours)
    page.write_blank_line()
    if plan.refused:
        page.write_paragraph("No action is taken.", style="bold", indent=2)
        for why in plan.refused:
            page.write_paragraph(why, label="because ", indent=2)
    elif not plan.actions:
        page.write_paragraph("No job needs action.", style="bold", indent=2)
    else:
        heading = "Actions:" if acts else "Planned actions (only --yes carries them out):"
        page.write_paragraph(heading, style="bold", indent=2)
    page.write_blank_line()
    for action in plan.actions:
        owner = action.user or "?"
        text = f"{action.job} of {owner}: {action.reason}"
        page.write_paragraph(text, label=f"{action.verb} ", indent=2)
        if action.command:
            page.write_paragraph(shlex.join(action.command), style="dim", indent=4)
    for name, jobs in (("between two warnings", plan.waiting), ("exempt", plan.exempt)):
        if jobs:
            page.write_paragraph(", ".join(jobs), style="dim", label=f"{name} ", indent=2)
    return page.page_text()
