"""The diagnosis for a terminal: the verdict first, then where the time goes, then why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from whyidle.exporters import _words as words
from whyidle.exporters._bar import bar
from whyidle.exporters._page import Colours, Page
from whyidle.exporters._trials import fruitless, outcome, trials
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import (
    Diagnosis,
    Finding,
    Predicted,
    Prescription,
    Severity,
    State,
)
from whyidle.model.signals import SIGNALS

SUFFIXES: tuple[str, ...] = ()
WANTS = "tty"

_STATES: Final[dict[State, str]] = {
    "starved": "bold white on red",
    "inefficient": "bold black on yellow",
    "saturated": "bold white on green",
    "inconclusive": "bold white on blue",
}
_SEVERITIES: Final[dict[Severity, str]] = {
    "critical": "bold red",
    "warning": "bold yellow",
    "info": "dim",
}
_CONSENTS: Final = {
    "none": "same numbers",
    "rounding": "other rounding or random order",
    "numerics": "other precision of numbers",
    "convergence": "may change learning",
}
_ROOMY = 70
"""columns from which on the headline stands beside the badge"""
_LATE = 0.01
"""share of the step from which on a rank is called late"""
_PROOFS = 3
_PLACES = 2
_FIXES = 2
_NOTES = 3
_LACKS = 3
"""so many of each are shown, the rest is counted; ``full`` shows all"""

NextStep = tuple[str, str]
"""(command, what it is good for)"""


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
    page = Page(width, colours)
    page.gap()
    if diagnosis.run.job:
        page.line(page.text(diagnosis.run.job), head=page.text("job  ", "dim"), indent=2)
    if told := outcome(diagnosis):
        page.line(page.text(told, "bold green"), head=page.text("HEALED  ", "bold green"), indent=2)
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
    if full or diagnosis.detail.healed is None:
        _findings(page, diagnosis, full)
    trials(page, diagnosis)
    _unsaid(page, diagnosis, full)
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
    badge = page.text(f"{word}:" if page.plain else f" {word} ", _STATES[verdict.state])
    if page.width >= _ROOMY:
        page.line(
            page.text(verdict.headline, "bold"), head=Text().join([badge, Text(" ")]), indent=2
        )
    else:
        page.line(badge, indent=2)
        page.line(page.text(verdict.headline, "bold"), indent=2)
    best = _best(diagnosis)
    if best is not None and not diagnosis.trials:  # else what was tried is told below
        gain = best[1].predicted
        page.line(
            page.text(best[1].summary, "green"),
            page.text(f"; {_gain(gain)}" if gain else ""),
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


def _findings(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    told = [finding for finding in diagnosis.findings if full or finding.severity != "info"]
    small = [finding for finding in diagnosis.findings if finding not in told]
    for number, finding in enumerate(told, 1):
        page.gap()
        _finding(page, number, finding, full)
    if small:
        page.gap()
        page.line(
            page.text("also, under 3%: " + ", ".join(finding.cause for finding in small), "dim"),
            indent=2,
        )


def _finding(page: Page, number: int, finding: Finding, full: bool) -> None:
    mark = page.text(f"{number}. {finding.severity.upper()} ", _SEVERITIES[finding.severity])
    page.line(page.text(finding.headline, "bold"), head=mark, indent=2)
    cost = f"{words.interval(finding.lost)} of the step"
    _row(page, "costs", f"{cost} · {finding.cause}, {finding.confidence:.0%} sure")
    places = list(dict.fromkeys(words.place(place) for place in finding.where))
    for label, text in _limited("where", places, None if full else _PLACES):
        _row(page, label, text)
    for label, text in _limited("proof", _proofs(finding), None if full else _PROOFS):
        _row(page, label, text)
    fixes = finding.prescriptions if full else finding.prescriptions[:_FIXES]
    for fix in fixes:
        _row(page, "fix", fix.summary, "green")
        _row(page, "", _worth(fix))
        if full and fix.risk:
            _row(page, "", f"mind: {fix.risk}")
    if len(finding.prescriptions) > len(fixes):
        _row(page, "", f"and {len(finding.prescriptions) - len(fixes)} more")


def _proofs(finding: Finding) -> list[str]:
    listed = []
    for evidence in finding.evidence:
        samples = f" ({evidence.samples} samples)" if (evidence.samples or 0) > 1 else ""
        listed.append(f"{evidence.quantity}: {words.measured(evidence)}{samples}")
    return listed


def _worth(fix: Prescription) -> str:
    parts = [_gain(fix.predicted)] if fix.predicted else []
    return "; ".join([*parts, _CONSENTS[fix.consent]])


def _gain(predicted: Predicted) -> str:
    low, high = words.factor(predicted.low), words.factor(predicted.high)
    return f"predicted {words.factor(predicted.speedup)}× as fast ({low} to {high})"


def _best(diagnosis: Diagnosis) -> tuple[Finding, Prescription] | None:
    """The first fix of the finding that the verdict is about."""
    for finding in diagnosis.findings:
        if finding.severity != "info" and finding.prescriptions:
            return finding, finding.prescriptions[0]
    return None


def _limited(label: str, texts: list[str], most: int | None) -> list[tuple[str, str]]:
    """Rows with the label on the first, and a count of what was left out on the last."""
    shown = texts if most is None else texts[:most]
    rows = [(label if i == 0 else "", text) for i, text in enumerate(shown)]
    if len(texts) > len(shown):
        rows[-1] = (rows[-1][0], f"{rows[-1][1]} (and {len(texts) - len(shown)} more)")
    return rows


def _row(page: Page, label: str, text: str, style: str = "") -> None:
    page.line(page.text(text, style), head=page.text(f"{label:<7}", "dim"), indent=5)


def _unsaid(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    """Notes on what was read, and what could not be judged: of a command without any step that is
    everything, and goes without saying."""
    gone = diagnosis.abstentions if full or not diagnosis.blank else []
    if diagnosis.coverage.notes or gone:
        page.gap()
    _notes(page, diagnosis, full)
    if not gone:
        return
    missing: dict[str, list[str]] = {}
    for abstention in gone:
        for signal in abstention.missing:
            missing.setdefault(signal, []).append(abstention.cause)
    if full:
        _abstentions(page, missing)
        return
    most = sorted(missing, key=lambda signal: -len(missing[signal]))
    lacks = "; ".join(_meaning(signal) for signal in most[:_LACKS])
    more = f"; and {len(most) - _LACKS} more" if len(most) > _LACKS else ""
    count = f"{len(gone)} cause{'s' if len(gone) > 1 else ''}"
    page.line(page.text(f"could not judge {count}; not recorded: {lacks}{more}", "dim"), indent=2)
    page.line(page.text("--all says what each lacks and how to get it", "dim"), indent=2)


def _notes(page: Page, diagnosis: Diagnosis, full: bool) -> None:
    for label, text in _limited("note", diagnosis.coverage.notes, None if full else _NOTES):
        page.line(page.text(text, "dim"), head=page.text(f"{label:<5}", "dim"), indent=2)


def _abstentions(page: Page, missing: dict[str, list[str]]) -> None:
    for signal, causes in missing.items():
        page.line(
            page.text(f"could not judge {', '.join(causes)}; not recorded: {_meaning(signal)}"),
            indent=2,
        )
        if signal in SIGNALS:
            page.line(page.text(f"to get it, {SIGNALS[signal].how}", "dim"), indent=4)


def _meaning(signal: str) -> str:
    return SIGNALS[signal].meaning if signal in SIGNALS else signal


def next_commands(page: Page, steps: Sequence[NextStep]) -> None:
    """The commands to go on with; what each is for stands beside or, where narrow, below it."""
    if not steps:
        return
    page.gap()
    page.line(page.text("next", "dim"), indent=2)
    fits = [len(command) for command, purpose in steps if _beside(page, command, purpose)]
    column = max(fits, default=0)
    for command, purpose in steps:
        beside = len(command) <= column and column + len(purpose) + 8 <= page.width
        gap = " " * (column - len(command) + 2) if beside else ""
        page.raw(
            Text("    ")
            + page.text(command, "cyan")
            + Text(gap)
            + page.text(purpose if beside else "", "dim")
        )
        if not beside:
            page.line(page.text(purpose, "dim"), indent=6)


def _beside(page: Page, command: str, purpose: str) -> bool:
    return len(command) + len(purpose) + 8 <= page.width
