"""The report for a terminal: one screen, or everything."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.model.diagnosis import Diagnosis
from whyidle.reports._findings_page import serious_findings
from whyidle.reports._line_table import MOST_ROWS
from whyidle.reports._next_steps import NextStep
from whyidle.reports._relative_paths import shorten_paths
from whyidle.reports._report import STEP_ROWS, report_parts, screen_parts
from whyidle.reports._sections import Commands, Paragraph, Part
from whyidle.reports._text_page import Colours
from whyidle.reports._text_sections import render_text
from whyidle.reports._verdict_page import describe_steps


def render(
    diagnosis: Diagnosis,
    *,
    width: int = 80,
    colours: Colours | None = None,
    full: bool = False,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render the report as text.

    Args:
        diagnosis: the diagnosis.
        width: columns of the terminal.
        colours: colours of the terminal; None for plain ASCII.
        full: everything, instead of one screen.
        next_steps: commands at the end of the report.
    """
    diagnosis = shorten_paths(diagnosis)
    if full:
        parts = [*report_parts(diagnosis), Commands(next_steps)]
        return render_text(parts, width=width, colours=colours)
    # two lines of the step are worth more than the second command, but for how to undo a fix
    fewest = next_steps if diagnosis.detail.fixed else next_steps[:1]
    sizes = [(most, next_steps) for most in range(MOST_ROWS, 1, -1)]
    for most, commands in [*sizes, *((most, fewest) for most in range(STEP_ROWS, -1, -1))]:
        parts = screen_parts(diagnosis, commands, most)
        text = render_text(parts, width=width, colours=colours)
        if text.count("\n") <= 30:  # lines of one screen, of 80 columns
            break
    return text


def in_brief(
    rows: Sequence[tuple[str, Diagnosis]],
    *,
    width: int = 80,
    colours: Colours | None = None,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render several diagnoses in a line or two each, after their names."""
    title = f"{len(rows)} more job{'s' if len(rows) > 1 else ''}"
    lines = []
    for name, diagnosis in rows:
        serious = serious_findings(diagnosis)
        state = f"{diagnosis.verdict.state}{f': {serious[0].cause}' if serious else ''}"
        parts = [state, describe_steps(diagnosis), diagnosis.run.job or ""]
        lines.append(Paragraph(" · ".join(filter(None, parts)), name))
    brief: list[Part] = [Paragraph(title, tone="strong"), *lines, Commands(next_steps)]
    return render_text(brief, width=width, colours=colours)
