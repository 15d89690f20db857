"""The diagnosis for a terminal: the verdict first, then where the time goes, then why."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from whyidle.exporters import _words as words
from whyidle.exporters._bar import bar
from whyidle.exporters._ending import ending
from whyidle.exporters._findings import findings, foretold
from whyidle.exporters._near import near
from whyidle.exporters._next import NextStep, next_commands
from whyidle.exporters._page import Colours, Page
from whyidle.exporters._palette import BADGES
from whyidle.exporters._trials import first_fix, fruitless, outcome, trials
from whyidle.exporters._unsaid import unsaid
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
    diagnosis = near(diagnosis)
    page = Page(width, colours)
    page.gap()
    if diagnosis.run.job:
        page.line(page.text(diagnosis.run.job), head=page.text("job  ", "dim"), indent=2)
    word, said = ending(diagnosis)
    if said:
        style = "bold red" if word == "failed" else "bold"
        page.line(page.text(said, "bold"), head=page.text(f"{word.upper()}  ", style), indent=2)
        page.gap()
    if told := outcome(diagnosis):
        page.line(page.text(told, "bold green"), head=page.text("FIXED  ", "bold green"), indent=2)
        page.gap()
        page.line(page.text("it was", "dim"), indent=2)
    elif told := fruitless(diagnosis):
        page.line(page.text(told, "bold"), head=page.text("NOTHING KEPT  ", "bold"), indent=2)
        page.gap()
    _verdict(page, diagnosis)
    if diagnosis.failed and not full:
        return page.done()
    if diagnosis.detail.ranks and not diagnosis.blank:
        page.gap()
        bar(page, {bucket: getattr(diagnosis.attribution, bucket) for bucket in BUCKETS})
    page.gap()
    _setting(page, diagnosis, full)
    if full or diagnosis.detail.fixed is None:
        findings(page, diagnosis, full)
    trials(page, diagnosis)
    unsaid(page, diagnosis, full)
    next_commands(page, next_steps)
    return page.done()


def in_brief(
    rows: Sequence[tuple[str, Diagnosis]],
    *,
    width: int = 80,
    colours: Colours | None = None,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Several diagnoses, each as a line or two behind its name."""
    page = Page(width, colours)
    page.gap()
    page.line(page.text(f"{len(rows)} job{'s' if len(rows) > 1 else ''} more", "bold"), indent=2)
    for name, diagnosis in rows:
        serious = [found.cause for found in diagnosis.findings if found.severity != "info"]
        state = f"{diagnosis.verdict.state}{f': {serious[0]}' if serious else ''}"
        told = [state, _steps(diagnosis), diagnosis.run.job or ""]
        head = page.text(f"{name}  " if name else "", "cyan")
        page.line(page.text(" · ".join(filter(None, told))), head=head, indent=2)
    next_commands(page, next_steps)
    return page.done()


def _verdict(page: Page, diagnosis: Diagnosis) -> None:
    verdict = diagnosis.verdict
    word = verdict.state.upper()
    badge = page.text(f"{word}:" if page.plain else f" {word} ", BADGES[verdict.state])
    if page.width >= _ROOMY:
        page.line(
            page.text(verdict.headline, "bold"), head=Text().join([badge, Text(" ")]), indent=2
        )
    else:
        page.line(badge, indent=2)
        page.line(page.text(verdict.headline, "bold"), indent=2)
    if fix := first_fix(diagnosis):
        page.line(
            page.text(fix.summary, "green"),
            page.text(f"; {foretold(fix.predicted)}" if fix.predicted else ""),
            head=page.text("first fix: ", "dim"),
            indent=2,
        )


def _setting(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """What was looked at: steps, device, ranks, and what the busy time was spent on."""
    steps, device = diagnosis.steps, diagnosis.device
    facts = [_steps(diagnosis)]
    if device.name:
        facts.append(f"{device.name}{f' × {device.count}' if device.count > 1 else ''}")
    elif device.kind != "other" and not diagnosis.blank:
        facts.append(f"{device.kind} device")
    if diagnosis.utilization.busy is not None:
        facts.append(f"device busy {words.percent(diagnosis.utilization.busy)}")
    if steps.samples_per_s:
        facts.append(f"{words.digits(steps.samples_per_s)} samples/s")
    page.line(page.text(" · ".join(facts)), indent=2)
    if len(diagnosis.detail.ranks) > 1 or diagnosis.run.ranks > 1:
        page.line(page.text(_ranks(diagnosis)), indent=2)
    groups = [(name, share) for name, share in diagnosis.detail.groups.items() if share >= 0.02]
    if groups:
        shown = groups if full else groups[:4]
        listed = ", ".join(
            f"{name.replace('_', ' ')} {words.percent(share)}" for name, share in shown
        )
        what = "operators" if diagnosis.device.kind == "cpu" else "kernel time"
        page.line(page.text(f"{what}: {listed}"), indent=2)


def _steps(diagnosis: Diagnosis) -> str:
    steps = diagnosis.steps
    if steps.mean_s is None:
        return f"no step boundaries, {words.seconds(diagnosis.run.duration_s)} recorded"
    text = f"{steps.count} step{'s' if steps.count != 1 else ''} of {words.seconds(steps.mean_s)}"
    if steps.p95_s is not None and steps.p95_s > 1.1 * steps.mean_s:
        text += f" (95th percentile {words.seconds(steps.p95_s)})"
    if steps.warmup:
        text += f" after {steps.warmup} of warm-up"
    return f"{text}, found by {steps.detected_by}"


def _ranks(diagnosis: Diagnosis) -> str:
    rows = diagnosis.detail.ranks
    text = f"{len(rows)} of {diagnosis.run.ranks} ranks"
    late = [row for row in rows if (row.lateness_s or 0.0) >= _LATE * (row.step_s or 0.0) > 0.0]
    if late:
        worst = max(late, key=lambda row: row.lateness_s or 0.0)
        late_by = words.seconds(worst.lateness_s)
        text += f" · rank {worst.rank} arrives last at collectives, by {late_by}"
    return text
