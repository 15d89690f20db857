"""The diagnosis for a terminal: the verdict first, then where the time goes, then why."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from whyidle.exporters import _number_format as words
from whyidle.exporters._exit_status import describe_exit
from whyidle.exporters._findings_page import draw_findings, format_prediction
from whyidle.exporters._limitations import draw_limitations
from whyidle.exporters._next_steps import NextStep, next_commands
from whyidle.exporters._palette import BADGES
from whyidle.exporters._relative_paths import shorten_paths
from whyidle.exporters._shares_bar import draw_shares_bar
from whyidle.exporters._text_page import Colours, Page
from whyidle.exporters._trials_page import (
    draw_trials,
    explain_no_gain,
    first_fix,
    summarize_outcome,
)
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis

SUFFIXES: tuple[str, ...] = ()
WANTS = "tty"

_ROOMY = 70
"""columns from which on the headline stands beside the badge"""
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
    """The report as text.

    Args:
        diagnosis: what to say.
        width: columns of the terminal.
        colours: what it can show; None is plain ASCII.
        full: also what is small, and what could not be told.
        next_steps: commands to end with.
    """
    diagnosis = shorten_paths(diagnosis)
    page = Page(width, colours)
    page.write_blank_line()
    if diagnosis.run.job:
        page.write_paragraph(
            page.styled_text(diagnosis.run.job), head=page.styled_text("job  ", "dim"), indent=2
        )
    word, said = describe_exit(diagnosis)
    if said:
        style = "bold red" if word == "failed" else "bold"
        page.write_paragraph(
            page.styled_text(said, "bold"),
            head=page.styled_text(f"{word.upper()}  ", style),
            indent=2,
        )
        page.write_blank_line()
    if told := summarize_outcome(diagnosis):
        page.write_paragraph(
            page.styled_text(told, "bold green"),
            head=page.styled_text("FIXED  ", "bold green"),
            indent=2,
        )
        page.write_blank_line()
        page.write_paragraph(page.styled_text("it was", "dim"), indent=2)
    elif told := explain_no_gain(diagnosis):
        page.write_paragraph(
            page.styled_text(told, "bold"),
            head=page.styled_text("NOTHING KEPT  ", "bold"),
            indent=2,
        )
        page.write_blank_line()
    _verdict(page, diagnosis)
    if diagnosis.command_failed and not full:
        return page.page_text()
    if diagnosis.detail.ranks and not diagnosis.saw_nothing:
        page.write_blank_line()
        draw_shares_bar(
            page, {bucket: getattr(diagnosis.attribution, bucket) for bucket in BUCKETS}
        )
    page.write_blank_line()
    _setting(page, diagnosis, full)
    if full or diagnosis.detail.fixed is None:
        draw_findings(page, diagnosis, full)
    draw_trials(page, diagnosis)
    draw_limitations(page, diagnosis, full)
    next_commands(page, next_steps)
    return page.page_text()


def in_brief(
    rows: Sequence[tuple[str, Diagnosis]],
    *,
    width: int = 80,
    colours: Colours | None = None,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Several diagnoses, each as a line or two behind its name."""
    page = Page(width, colours)
    page.write_blank_line()
    page.write_paragraph(
        page.styled_text(f"{len(rows)} job{'s' if len(rows) > 1 else ''} more", "bold"), indent=2
    )
    for name, diagnosis in rows:
        serious = [found.cause for found in diagnosis.findings if found.severity != "info"]
        state = f"{diagnosis.verdict.state}{f': {serious[0]}' if serious else ''}"
        told = [state, _steps(diagnosis), diagnosis.run.job or ""]
        head = page.styled_text(f"{name}  " if name else "", "cyan")
        page.write_paragraph(page.styled_text(" · ".join(filter(None, told))), head=head, indent=2)
    next_commands(page, next_steps)
    return page.page_text()


def _verdict(page: Page, diagnosis: Diagnosis) -> None:
    verdict = diagnosis.verdict
    word = verdict.state.upper()
    badge = page.styled_text(f"{word}:" if page.plain else f" {word} ", BADGES[verdict.state])
    if page.width >= _ROOMY:
        page.write_paragraph(
            page.styled_text(verdict.headline, "bold"),
            head=Text().join([badge, Text(" ")]),
            indent=2,
        )
    else:
        page.write_paragraph(badge, indent=2)
        page.write_paragraph(page.styled_text(verdict.headline, "bold"), indent=2)
    if fix := first_fix(diagnosis):
        page.write_paragraph(
            page.styled_text(fix.summary, "green"),
            page.styled_text(f"; {format_prediction(fix.predicted)}" if fix.predicted else ""),
            head=page.styled_text("first fix: ", "dim"),
            indent=2,
        )


def _setting(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """What was looked at: steps, device, ranks, and what the busy time was spent on."""
    steps, device = diagnosis.steps, diagnosis.device
    facts = [_steps(diagnosis)]
    if device.name:
        facts.append(f"{device.name}{f' × {device.count}' if device.count > 1 else ''}")
    elif device.kind != "other" and not diagnosis.saw_nothing:
        facts.append(f"{device.kind} device")
    if diagnosis.utilization.busy is not None:
        facts.append(f"device busy {words.format_percent(diagnosis.utilization.busy)}")
    if steps.samples_per_s:
        facts.append(f"{words.format_digits(steps.samples_per_s)} samples/s")
    page.write_paragraph(page.styled_text(" · ".join(facts)), indent=2)
    if len(diagnosis.detail.ranks) > 1 or diagnosis.run.ranks > 1:
        page.write_paragraph(page.styled_text(_ranks(diagnosis)), indent=2)
    groups = [(name, share) for name, share in diagnosis.detail.groups.items() if share >= 0.02]
    if groups:
        shown = groups if full else groups[:4]
        listed = ", ".join(
            f"{name.replace('_', ' ')} {words.format_percent(share)}" for name, share in shown
        )
        what = "operators" if diagnosis.device.kind == "cpu" else "kernel time"
        page.write_paragraph(page.styled_text(f"{what}: {listed}"), indent=2)


def _steps(diagnosis: Diagnosis) -> str:
    steps = diagnosis.steps
    if steps.mean_s is None:
        return f"no step boundaries, {words.format_seconds(diagnosis.run.duration_s)} recorded"
    text = (
        f"{steps.count} step{'s' if steps.count != 1 else ''} of "
        f"{words.format_seconds(steps.mean_s)}"
    )
    if steps.p95_s is not None and steps.p95_s > 1.1 * steps.mean_s:
        text += f" (95th percentile {words.format_seconds(steps.p95_s)})"
    if steps.warmup:
        text += f" after {steps.warmup} of warm-up"
    return f"{text}, found by {steps.detected_by}"


def _ranks(diagnosis: Diagnosis) -> str:
    rows = diagnosis.detail.ranks
    text = f"{len(rows)} of {diagnosis.run.ranks} ranks"
    late = [row for row in rows if (row.lateness_s or 0.0) >= _LATE * (row.step_s or 0.0) > 0.0]
    if late:
        worst = max(late, key=lambda row: row.lateness_s or 0.0)
        late_by = words.format_seconds(worst.lateness_s)
        text += f" · rank {worst.rank} arrives last at collectives, by {late_by}"
    return text
