"""Markdown to paste into an issue: verdict, attribution, findings, and what remains unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whyidle.exporters._exit_status import describe_exit
from whyidle.exporters._line_table import TITLE, shows_waits, table_rows
from whyidle.exporters._markdown_text import code_span, escape_text
from whyidle.exporters._number_format import (
    CONSENTS,
    NONE,
    format_evidence,
    format_interval,
    format_method,
    format_percent,
    format_place,
    format_removal,
    format_seconds,
    format_speedup,
    overlap_remark,
)
from whyidle.exporters._palette import LOOKS
from whyidle.exporters._relative_paths import shorten_paths
from whyidle.exporters._trial_outcomes import describe_outcome, in_turn, is_rejected, order_findings
from whyidle.exporters._trials_page import (
    explain_no_gain,
    format_measurement,
    format_memory,
    format_prediction,
    summarize_outcome,
)
from whyidle.model.diagnosis import Diagnosis, Finding, ProposedFix, Trial

_BAR = 24
_BLOCKS = " ▏▎▍▌▋▊▉█"


def render(diagnosis: Diagnosis) -> str:
    """Render the diagnosis as GitHub-flavoured Markdown."""
    diagnosis = shorten_paths(diagnosis)
    outcome = summarize_outcome(diagnosis) or explain_no_gain(diagnosis)
    _, exit_text = describe_exit(diagnosis)
    lines = [
        *([f"**{escape_text(exit_text)}.**", ""] if exit_text else []),
        f"### {escape_text(diagnosis.verdict.headline)}",
        *(["", f"**{escape_text(outcome)}**"] if outcome else []),
        "",
        f"**{diagnosis.verdict.state}** · {_steps(diagnosis)}",
        "",
        *_attribution(diagnosis),
        *_lines(diagnosis),
        *_trials(diagnosis),
        *_remaining_lines(diagnosis),
        *_findings(diagnosis),
        *_notes(diagnosis),
        *_abstentions(diagnosis),
        _environment(diagnosis),
    ]
    return "\n".join(lines) + "\n"


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    rows = table_rows(diagnosis)
    if not rows:
        return
    waits, rule = ("device waits |", "--:|") if shows_waits(rows) else ("", "")
    yield f"| {TITLE} | what it does | time | share |{waits}"
    yield f"|---|---|--:|--:|{rule}"
    for row in rows:
        line = " ".join(code_span(text) for text in (row.line, row.text) if text)
        what = f"**{row.what}**" if row.reporting else row.what
        yield f"| {line} | {what} | {row.time} | {row.share} |{f' {row.waits} |' if waits else ''}"
    yield ""


def _trials(diagnosis: Diagnosis) -> Iterator[str]:
    if not diagnosis.trials:
        return
    yield "| fix | cause | consent | predicted | measured | numbers | kept |"
    yield "|---|---|---|---|---|---|---|"
    for trial in diagnosis.trials:
        predicted = format_prediction(trial) or NONE
        gain = format_measurement(trial) or NONE
        result = "yes" if trial.kept else f"no: {escape_text(trial.why)}"
        memory = [f"memory: {text}"] if (text := format_memory(trial)) else []
        result = "; ".join((result, *memory, *map(escape_text, trial.notes)))
        numbers = escape_text(trial.numerics or NONE)
        cause = code_span(trial.cause) if trial.cause else NONE
        cells = (cause, CONSENTS[trial.consent], predicted, gain, numbers, result)
        yield f"| {code_span(trial.fix)} | {' | '.join(cells)} |"
    yield ""


def _remaining_lines(diagnosis: Diagnosis) -> Iterator[str]:
    fixed = diagnosis.detail.fixed
    if fixed and fixed.left:
        yield from (*(f"- remaining: {escape_text(sentence)}" for sentence in fixed.left), "")


def _steps(diagnosis: Diagnosis) -> str:
    steps = diagnosis.steps
    if steps.mean_s is None:
        return "no step boundaries found"
    warm = f", {steps.warmup} warm-up excluded" if steps.warmup else ""
    rate = f", {steps.samples_per_s:.1f} samples/s" if steps.samples_per_s else ""
    plural = "" if steps.count == 1 else "s"
    return (
        f"{format_seconds(steps.mean_s)} per step ({steps.count} steady step{plural}{warm}{rate})"
    )


def _attribution(diagnosis: Diagnosis) -> Iterator[str]:
    yield "| where the step goes | share | |"
    yield "|---|--:|:--|"
    for bucket, look in LOOKS.items():
        share = getattr(diagnosis.attribution, bucket)
        if share > 0:
            yield f"| **{look.title}**: {look.means} | {format_percent(share)} | `{_bar(share)}` |"
    yield ""


def _bar(share: float) -> str:
    eighths = max(1, round(share * _BAR * 8))
    full, part = divmod(eighths, 8)
    return ("█" * full + (_BLOCKS[part] if part else "")).ljust(_BAR)


def _findings(diagnosis: Diagnosis) -> Iterator[str]:
    if not diagnosis.findings:
        yield from ("No cause was found.", "")
    for number, finding in enumerate(order_findings(diagnosis), 1):
        yield from _finding_lines(number, finding, diagnosis.trials)


def _finding_lines(number: int, finding: Finding, trials: Sequence[Trial]) -> Iterator[str]:
    yield f"#### {number}. {escape_text(finding.title or finding.cause)}"
    yield ""
    yield (
        f"{escape_text(finding.headline)}  \n`{finding.severity}` · costs "
        f"**{format_interval(finding.lost)}** "
        f"of the step ({finding.bucket}){overlap_remark(finding)} · confidence "
        f"{finding.confidence:.0%} · `{finding.cause}`"
    )
    if finding.removal is not None:
        yield f"\nremoving it entirely: **{format_removal(finding.removal)}**"
    for where in finding.where:
        yield f"\nat {code_span(format_place(where))}"
    yield ""
    if finding.evidence:
        yield "| evidence | value | samples | window | source |"
        yield "|---|--:|--:|---|---|"
    for item in finding.evidence:
        cells = (item.quantity, format_evidence(item), item.samples, item.window, item.source)
        yield f"| {' | '.join('' if cell is None else escape_text(str(cell)) for cell in cells)} |"
    yield ""
    for fix in in_turn(finding, trials):
        yield from _fix(fix, finding, trials)


def _fix(fix: ProposedFix, finding: Finding, trials: Sequence[Trial]) -> Iterator[str]:
    outcome = describe_outcome(fix, finding, trials)
    word = "Tried" if is_rejected(fix, finding, trials) else "Fix"
    yield f"- **{word}** {code_span(fix.fix)}: {escape_text(fix.summary)}"
    how = "whyidle fix applies it" if fix.automatic else "apply it by hand"
    gain = f"predicted {format_speedup(fix.predicted)}; " if fix.predicted else ""
    yield f"  - {gain}{CONSENTS[fix.consent]}; {how}"
    if outcome:
        yield f"  - **{escape_text(outcome)}**"
    if fix.predicted:
        yield f"  - predicted from: {escape_text(format_method(fix.predicted))}"
    if fix.risk:
        yield f"  - risk: {escape_text(fix.risk)}"
    yield ""


def _notes(diagnosis: Diagnosis) -> Iterator[str]:
    for note in diagnosis.coverage.notes:
        yield f"> {escape_text(note)}"
    if diagnosis.coverage.notes:
        yield ""


def _abstentions(diagnosis: Diagnosis) -> Iterator[str]:
    if not diagnosis.abstentions:
        return
    yield f"<details><summary>{len(diagnosis.abstentions)} causes could not be judged</summary>"
    yield ""
    for item in diagnosis.abstentions:
        missing = ", ".join(item.missing).replace("_", " ")
        how = f". To record this: {escape_text(item.how)}" if item.how else ""
        yield f"- {code_span(item.cause)}: {escape_text(missing)} not recorded{how}"
    yield from ("", "</details>", "")


def _environment(diagnosis: Diagnosis) -> str:
    run, device = diagnosis.run, diagnosis.device
    parts = [
        run.job,
        diagnosis.recording.title if diagnosis.recording else None,
        f"{device.count} × {device.name}" if device.name else device.kind,
        f"{run.ranks} rank{'s' if run.ranks != 1 else ''}",
        run.framework,
        f"steps by {diagnosis.steps.detected_by}" if diagnosis.steps.detected_by else None,
        f"whyidle {run.whyidle}",
    ]
    return "<sub>" + " · ".join(escape_text(part) for part in parts if part) + "</sub>"
