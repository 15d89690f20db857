"""The report for a terminal: verdict, attribution, findings, trials and limitations."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from whyidle.exporters import _number_format as words
from whyidle.exporters._exit_status import describe_exit
from whyidle.exporters._findings_page import draw_findings, format_prediction
from whyidle.exporters._limitations import draw_limitations
from whyidle.exporters._line_table import draw_line_table
from whyidle.exporters._memory_page import draw_death, draw_memory
from whyidle.exporters._model_page import draw_model
from whyidle.exporters._next_steps import NextStep, next_commands
from whyidle.exporters._palette import BADGES
from whyidle.exporters._pipeline_table import draw_pipeline_table
from whyidle.exporters._relative_paths import shorten_paths
from whyidle.exporters._text_bar import draw_text_bar
from whyidle.exporters._text_page import Colours, Page
from whyidle.exporters._trials_page import (
    draw_trials,
    explain_no_gain,
    first_fix,
    label_first_fix,
    summarize_outcome,
)
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis

_ROOMY = 70
"""minimum columns to put the headline beside the badge"""
_LATE = 0.01
"""share of the step from which on a rank is called late"""


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
        full: also show minor findings and all abstentions.
        next_steps: commands at the end of the report.
    """
    diagnosis = shorten_paths(diagnosis)
    page = Page(width, colours)
    page.write_blank_line()
    if diagnosis.run.job:
        page.write_paragraph(diagnosis.run.job, label="job  ", indent=2)
    word, exit_text = describe_exit(diagnosis)
    if exit_text:
        _draw_banner(page, word.upper(), exit_text, "bold red" if word == "failed" else "bold")
    draw_death(page, diagnosis)
    if outcome := summarize_outcome(diagnosis):
        _draw_banner(page, "FIXED", outcome, "bold green", "bold green")
        page.write_paragraph("before", style="dim", indent=2)
    elif outcome := explain_no_gain(diagnosis):
        _draw_banner(page, "NO FIX KEPT", outcome, "bold")
    _verdict(page, diagnosis)
    if diagnosis.command_failed and not full:
        return page.page_text()
    if diagnosis.detail.ranks and not diagnosis.saw_nothing:
        page.write_blank_line()
        draw_text_bar(page, {bucket: getattr(diagnosis.attribution, bucket) for bucket in BUCKETS})
    page.write_blank_line()
    _setting(page, diagnosis, full)
    draw_line_table(page, diagnosis)
    draw_pipeline_table(page, diagnosis, full)
    if full or diagnosis.detail.fixed is None:
        draw_findings(page, diagnosis, full)
    draw_memory(page, diagnosis, full)
    draw_model(page, diagnosis, full)
    draw_trials(page, diagnosis)
    draw_limitations(page, diagnosis, full)
    next_commands(page, next_steps)
    return page.page_text()


def _draw_banner(page: Page, word: str, text: str, head: str, style: str = "bold") -> None:
    page.write_paragraph(text, style=style, head=page.styled_text(f"{word}  ", head), indent=2)
    page.write_blank_line()


def in_brief(
    rows: Sequence[tuple[str, Diagnosis]],
    *,
    width: int = 80,
    colours: Colours | None = None,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render several diagnoses in a line or two each, after their names."""
    page = Page(width, colours)
    page.write_blank_line()
    title = f"{len(rows)} more job{'s' if len(rows) > 1 else ''}"
    page.write_paragraph(title, style="bold", indent=2)
    for name, diagnosis in rows:
        serious = [item.cause for item in diagnosis.findings if item.severity != "info"]
        state = f"{diagnosis.verdict.state}{f': {serious[0]}' if serious else ''}"
        parts = [state, _steps(diagnosis), diagnosis.run.job or ""]
        head = page.styled_text(f"{name}  " if name else "", "cyan")
        page.write_paragraph(" · ".join(filter(None, parts)), head=head, indent=2)
    next_commands(page, next_steps)
    return page.page_text()


def _verdict(page: Page, diagnosis: Diagnosis) -> None:
    verdict = diagnosis.verdict
    word = verdict.state.upper()
    badge = page.styled_text(f"{word}:" if page.plain else f" {word} ", BADGES[verdict.state])
    if page.width >= _ROOMY:
        page.write_paragraph(
            verdict.headline, style="bold", head=Text().join([badge, Text(" ")]), indent=2
        )
    else:
        page.write_paragraph(badge, indent=2)
        page.write_paragraph(verdict.headline, style="bold", indent=2)
    if fix := first_fix(diagnosis):
        page.write_paragraph(
            page.styled_text(fix.summary, "green"),
            page.styled_text(f"; {format_prediction(fix.predicted)}" if fix.predicted else ""),
            head=page.styled_text(f"{label_first_fix(fix)}: ", "dim"),
            indent=2,
        )


def _setting(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    steps, device = diagnosis.steps, diagnosis.device
    facts = [diagnosis.recording.title] if diagnosis.recording else []
    facts.append(_steps(diagnosis))
    if device.name:
        facts.append(f"{device.name}{f' × {device.count}' if device.count > 1 else ''}")
    elif device.kind != "other" and not diagnosis.saw_nothing:
        facts.append(f"{device.kind} device")
    if diagnosis.utilization.busy is not None:
        facts.append(f"device busy {words.format_percent(diagnosis.utilization.busy)}")
    if steps.samples_per_s:
        facts.append(f"{words.format_digits(steps.samples_per_s)} samples/s")
    page.write_paragraph(" · ".join(facts), indent=2)
    if len(diagnosis.detail.ranks) > 1 or diagnosis.run.ranks > 1:
        page.write_paragraph(_ranks(diagnosis), indent=2)
    groups = [(name, share) for name, share in diagnosis.detail.groups.items() if share >= 0.02]
    if groups and [name for name, _ in groups] != ["other"]:
        shown = groups if full else groups[:4]
        listed = ", ".join(
            f"{name.replace('_', ' ')} {words.format_percent(share)}" for name, share in shown
        )
        label = "operators" if diagnosis.device.kind == "cpu" else "kernel time"
        page.write_paragraph(f"{label}: {listed}", indent=2)


def _steps(diagnosis: Diagnosis) -> str:
    steps = diagnosis.steps
    if steps.mean_s is None and not diagnosis.run.duration_s:
        return "a state, without times"
    if steps.mean_s is None:
        return f"no step boundaries, {words.format_seconds(diagnosis.run.duration_s)} recorded"
    text = (
        f"{steps.count} step{'s' if steps.count != 1 else ''} of "
        f"{words.format_seconds(steps.mean_s)}"
    )
    if steps.p95_s is not None and steps.p95_s > 1.1 * steps.mean_s:
        text += f" (95th percentile {words.format_seconds(steps.p95_s)})"
    if steps.warmup:
        text += f" after {steps.warmup} warm-up step{'s' if steps.warmup != 1 else ''}"
    return f"{text}, detected by {steps.detected_by}"


def _ranks(diagnosis: Diagnosis) -> str:
    rows = diagnosis.detail.ranks
    text = f"{len(rows) or diagnosis.run.ranks} of {diagnosis.run.ranks} ranks"
    late = [row for row in rows if (row.lateness_s or 0.0) >= _LATE * (row.step_s or 0.0) > 0.0]
    if late:
        worst = max(late, key=lambda row: row.lateness_s or 0.0)
        late_by = words.format_seconds(worst.lateness_s)
        text += f" · rank {worst.rank} arrives last at collectives, by {late_by}"
    for row in diagnosis.detail.what_if:
        text += f" · {row.name} {words.format_seconds(row.step_s)} a step"
    return text
