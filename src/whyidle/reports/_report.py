"""The report of a diagnosis as sections: one screen, or everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.model.architecture import Architecture, LayerRow, LayerSwap
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis, Finding
from whyidle.model.fix import CONSENTS
from whyidle.model.number_text import MOST_NAMED
from whyidle.model.signals import SIGNALS
from whyidle.reports import _number_format as words
from whyidle.reports._findings_page import (
    describe_evidence,
    describe_fix,
    findings_section,
    minor_findings,
    serious_findings,
)
from whyidle.reports._html import kernel_tables, ranks, summary, timeline
from whyidle.reports._line_table import MOST_ROWS, line_section
from whyidle.reports._memory_page import death_section, memory_section
from whyidle.reports._next_steps import NextStep
from whyidle.reports._number_format import (
    format_digits,
    format_factor,
    format_percent,
    format_seconds,
)
from whyidle.reports._pipeline_table import pipeline_section
from whyidle.reports._sections import (
    Bar,
    Card,
    Column,
    Commands,
    Facts,
    Folded,
    Items,
    Line,
    Paragraph,
    Part,
    Picture,
    Section,
    Span,
    Table,
)
from whyidle.reports._text_page import SUMMARY, whole_clauses
from whyidle.reports._trial_outcomes import in_turn
from whyidle.reports._trials_page import (
    describe_setting,
    fix_sections,
    format_measurement,
    format_prediction,
    format_savings,
    split_by_run,
    summarize_outcome,
    trials_section,
)
from whyidle.reports._verdict_page import (
    STATES,
    attribution_section,
    bucket_shares,
    figures,
    kept_settings,
    setting,
    verdict_parts,
)

COLUMNS: Final = (
    Column("share", True),
    Column("of roofline", True, 2),
    Column("GFLOP", True, 1),
    Column("calls", True, 3),
    Column("layer"),
)


def model_section(diagnosis: Diagnosis, most: int | None = None) -> Section | None:
    """Where the model's time goes, and what other layers would bring; None without a look at it.
    ``most``: rows of each list on one screen, which has no notes."""
    model = diagnosis.architecture
    if model is None:
        return None
    parts: list[Part] = [Paragraph(describe_model(model), tone="strong")]
    if model.layers:
        parts.append(Table(COLUMNS, [layer_cells(row) for row in model.layers[:most]]))
    rows: list[tuple[str, Line]] = [
        ("measured", describe_swap(swap)) for swap in model.swaps[:most]
    ]
    rows += [("not known", text) for text in model.unknown[model.pass_s is None : most]]
    notes = [] if most is not None else model.notes
    return Section("Model", [*parts, Facts(rows), Items(notes)], "model")


def describe_model(model: Architecture) -> str:
    """One line: what a forward and backward pass takes, and what the device can do."""
    if model.pass_s is None:
        return ": ".join(["the layers were not timed", *model.unknown[:1]])
    batch = f"{model.batch} samples" if model.batch else "one batch"
    text = f"{format_seconds(model.pass_s)} forward and backward of {batch}"
    if model.peak_flops and model.peak_bytes:
        flops, moved = (format_digits(peak / 1e9) for peak in (model.peak_flops, model.peak_bytes))
        text += f"; this device attains {flops} GFLOP/s and {moved} GB/s"
    return text


def layer_cells(row: LayerRow) -> list[Line]:
    """The cells of a layer."""
    return [
        format_percent(row.share),
        format_percent(row.attained),
        format_digits(row.flops / 1e9) if row.flops else "–",
        str(row.calls),
        f"{row.name}  {row.kind}",
    ]


def describe_swap(swap: LayerSwap) -> str:
    """What was measured of a swap, in one sentence."""
    if swap.change is None:
        return f"{swap.title}: {swap.why}"
    low, high = sorted(swap.change)
    faster = low > 1.0
    if not faster:
        low, high = 1 / high, 1 / low
    word = "faster" if faster else "slower"
    after = "" if swap.keeps else "; rounding differs: compare losses"
    return (
        f"{swap.title}: {format_factor(low)} to {format_factor(high)} times {word}, a step of "
        f"{format_seconds(swap.step_s)}{after}"
    )


_CAUSES = 6
"""causes named of one signal; the document has all"""


def unjudged_section(diagnosis: Diagnosis) -> Section | None:
    """The causes that could not be judged, by what would record their signals; None without any."""
    groups: dict[str, tuple[list[str], list[str]]] = {}
    for signal, causes in _by_signal(diagnosis).items():
        meaning, how = SIGNALS.get(signal, (signal, ""))
        meanings, lacking = groups.setdefault(how, ([], []))
        meanings.append(meaning)
        lacking += causes
    if not groups:
        return None
    rows: list[Line] = []
    for how, (meanings, causes) in groups.items():
        more = f" and {len(causes) - _CAUSES} more" if len(causes) > _CAUSES else ""
        listed = f" not recorded: {', '.join(causes[:_CAUSES])}{more}. "
        tip = Span(f"To record it, {how}." if how else "", "dim")
        rows.append([Span("; ".join(meanings), "strong"), listed, tip])
    return Section(
        "Causes that could not be judged",
        [Folded(describe_unjudged(diagnosis), [Items(rows)])],
        "abstentions",
    )


def describe_unjudged(diagnosis: Diagnosis) -> str:
    """How many causes could not be judged, and what the recording lacks for most of them."""
    missing = _by_signal(diagnosis)
    names = [SIGNALS[signal].meaning if signal in SIGNALS else signal for signal in missing]
    more = f"; and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    count = len(diagnosis.abstentions)
    return (
        f"{count} cause{'s' if count != 1 else ''} not checked, because the recording lacks "
        f"{'; '.join(names[:MOST_NAMED])}{more}"
    )


def _by_signal(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Each cause under the first signal that it lacks, the signals that most causes lack first."""
    missing: dict[str, list[str]] = {}
    for item in diagnosis.abstentions:
        for signal in item.missing[:1]:
            missing.setdefault(signal, []).append(item.cause)
    return dict(sorted(missing.items(), key=lambda pair: -len(pair[1])))


def coverage_section(diagnosis: Diagnosis) -> Section:
    """The recorded evidence, its notes and its precision."""
    coverage, run = diagnosis.coverage, diagnosis.run
    clock_error, overhead = coverage.clock_error_s, coverage.overhead_ratio
    sources = [source.replace("\\", "/").rpartition("/")[2] for source in run.sources]
    facts: list[tuple[str, str | None]] = [
        ("run", run.job),
        ("of", ", ".join(sources[:4]) + (f" and {len(sources) - 4} more" if sources[4:] else "")),
        ("signals", ", ".join(signal.replace("_", " ") for signal in coverage.signals)),
        ("duration", format_seconds(run.duration_s) if run.duration_s is not None else ""),
        ("hosts", ", ".join(run.hosts)),
        ("clocks", f"agree to {format_seconds(clock_error)}" if clock_error is not None else ""),
        ("overhead", f"{format_percent(overhead)} by whyidle" if overhead is not None else ""),
        ("made by", f"whyidle {run.whyidle}, {diagnosis.schema}, {run.id}"),
    ]
    rows: list[tuple[str, Line]] = [(label, text) for label, text in facts if text]
    notes = [Items(coverage.notes)] if coverage.notes else []
    return Section("Coverage", [*notes, Facts(rows)], "coverage")


NOTES = 2
"""notes on one screen"""
STEP_ROWS = 5
"""lines of the step on one screen"""


def report_parts(diagnosis: Diagnosis) -> list[Part]:
    """Everything that is known of a run."""
    kept = kept_settings(diagnosis)
    parts: list[Part | None] = [
        _job(diagnosis),
        death_section(diagnosis),
        *verdict_parts(diagnosis),
        figures(diagnosis),
        Items(kept) if kept else None,
        *setting(diagnosis),
        *fix_sections(diagnosis),
        attribution_section(diagnosis),
        trials_section(diagnosis),
        line_section(diagnosis),
        pipeline_section(diagnosis),
        findings_section(diagnosis),
        Picture(lambda: timeline.render_timeline(diagnosis)),
        memory_section(diagnosis),
        model_section(diagnosis),
        Picture(lambda: summary.render_steps(diagnosis)),
        Picture(lambda: ranks.render_ranks(diagnosis)),
        Picture(lambda: kernel_tables.render_kernels(diagnosis)),
        unjudged_section(diagnosis),
        coverage_section(diagnosis),
    ]
    return [part for part in parts if part is not None]


def _job(diagnosis: Diagnosis) -> Paragraph | None:
    return Paragraph(diagnosis.run.job, "job") if diagnosis.run.job else None


def screen_parts(
    diagnosis: Diagnosis, next_steps: Sequence[NextStep], most: int = MOST_ROWS
) -> list[Part]:
    """What a person reads first. ``most``: rows of each list, fewer where the screen is small."""
    parts: list[Part | None]
    top: list[Part | None] = [
        _job(diagnosis),
        death_section(diagnosis),
        *verdict_parts(diagnosis, brief=True),
    ]
    if diagnosis.saw_nothing and not serious_findings(diagnosis):
        steps = [] if diagnosis.command_failed else [Commands(next_steps)]
        notes = _notes(diagnosis, max(most - 1, 0))
        return [part for part in (*top, *notes, *steps) if part is not None]
    account, died = diagnosis.memory, death_section(diagnosis) is not None
    if account is not None and account.peak and not died:  # it was asked for
        model, memory = model_section(diagnosis, 1), memory_section(diagnosis, most)
        if model:  # every look was asked for, so there is room for one row of each list
            memory = memory_section(diagnosis, 1)
            parts = [*top, _bars(diagnosis), _findings(diagnosis, 1), memory, model]
        else:
            verdict = [*top[1:], _bars(diagnosis)] if account.usable is None else []
            parts = [top[0], memory, *verdict]
        return [part for part in (*parts, _recap(diagnosis, next_steps)) if part is not None]
    parts = [
        *top,
        None if died else _bars(diagnosis),
        None
        if diagnosis.detail.fixed or died
        else line_section(diagnosis, min(most, STEP_ROWS), heads=False),
        model_section(diagnosis, most),
        _trials(diagnosis, most) if diagnosis.trials else _findings(diagnosis, most),
        _recap(diagnosis, next_steps),
    ]
    return [part for part in parts if part is not None]


def _bars(diagnosis: Diagnosis) -> Section:
    shown = diagnosis.detail.ranks and not diagnosis.saw_nothing
    bar = [Bar(bucket_shares(diagnosis))] if shown else []
    return Section("", [*bar, *setting(diagnosis, brief=True)])


def _findings(diagnosis: Diagnosis, most: int) -> Section | None:
    serious = serious_findings(diagnosis)
    rest = serious[1 : 1 + most]
    others = [
        Paragraph(_one_line(finding), f"{number}.", rows=1)
        for number, finding in enumerate(rest, 2)
    ]
    more, told = len(serious) - 1 - len(rest), {finding.cause for finding in serious}
    tail = [f"{more} more finding{'s' if more > 1 else ''}"] if more > 0 else []
    for why, minor in minor_findings(diagnosis.findings).items():
        names = dict.fromkeys(one.cause for one in minor if one.cause not in told)
        tail += [f"also ({why}): {', '.join(names)}"] if names else []
    if diagnosis.abstentions and not diagnosis.saw_nothing and diagnosis.memory is None:
        tail.append(describe_unjudged(diagnosis).partition(", because")[0])
    dim = [Paragraph(" · ".join(tail), tone="dim", rows=2)] if tail else []
    first = [_first_card(diagnosis, serious[0])] if serious else []
    parts = [*first, *others, *dim, *_notes(diagnosis, max(most - 1, 0))]
    return Section("", parts) if parts else None


def _one_line(finding: Finding) -> Line:
    cost = words.format_interval(finding.lost)
    return [Span(finding.headline), Span(f" · {cost}", "dim")]


def _first_card(diagnosis: Diagnosis, finding: Finding) -> Card:
    """A finding with its place, its first evidence, and its first fix."""
    place = [("where", Span(words.format_place(where), "code")) for where in finding.where[:1]]
    cost = f"costs {words.format_interval(finding.lost)} of the step{words.overlap_remark(finding)}"
    evidence = [describe_evidence(item, brief=True) for item in finding.evidence[:1]]
    parts = [Facts(place), Facts([("evidence", "; ".join([cost, *evidence]))], most_rows=1)]
    for fix in in_turn(finding, diagnosis.trials)[:1]:
        summary = Span(whole_clauses(fix.summary, SUMMARY), "good")
        parts.append(Facts([("fix", summary), ("", describe_fix(fix, brief=True))]))
    return Card(finding.headline, finding.severity, [], finding.bucket, parts, 1)


def _trials(diagnosis: Diagnosis, most: int) -> Section:
    """What was kept with its gain, what was not in a line each, and what remains."""
    tried, untried = split_by_run(diagnosis)
    fixed, rows = diagnosis.detail.fixed, list[Part]()
    for trial in [trial for trial in tried if trial.kept][:most]:
        rows.append(Paragraph(describe_setting(trial), "kept", "good", rows=2))
        promise = f"predicted {format_prediction(trial)}" if trial.promised else ""
        gain = [format_measurement(trial), promise, CONSENTS[trial.consent], trial.numerics]
        rows.append(Paragraph("; ".join(filter(None, gain)), "    ", rows=2))
    for trial in [trial for trial in tried if not trial.kept][:most]:
        rows.append(Paragraph(f"{trial.fix}: {trial.why}", "not kept", rows=1))
    reasons = {one.fix: one.why for one in sorted(untried, key=lambda one: not one.edits)}
    told = [", ".join(reasons)] if tried and reasons else list(map(": ".join, reasons.items()))
    rows += [Paragraph(text, "not tried", "dim", rows=2) for text in told[: max(most, 1)]]
    if fixed is not None:
        shares = {bucket: getattr(fixed.attribution, bucket) for bucket in BUCKETS}
        after: list[Part] = [Paragraph("after", tone="dim"), Bar(shares)]
        saved = [Paragraph(" · ".join(format_savings(fixed)), rows=2)] if fixed.speedup else []
        left = [Paragraph(text, "remaining", rows=1) for text in fixed.left[:most]]
        rows = [*after, *saved, *rows, *left]
    rows += _notes(diagnosis, most)
    return Section("", rows)


def _notes(diagnosis: Diagnosis, most: int) -> list[Part]:
    """The first notes that do not stand beside the verdict."""
    others = [text for text in diagnosis.coverage.notes if text not in diagnosis.coverage.spoils]
    return [Paragraph(text, "note", "dim", rows=2) for text in others[: min(most, NOTES)]]


def _recap(diagnosis: Diagnosis, next_steps: Sequence[NextStep]) -> Section:
    """The outcome again, in a few words, for whoever sees the end first; and what to do next."""
    verdict = diagnosis.verdict
    named = next((one for one in diagnosis.findings if one.cause == verdict.cause), None)
    seen = verdict.headline.partition(",")[0] if verdict.state == "starved" else ""
    why = named.headline.partition(": ")[0] if named else seen or STATES[verdict.state][1]
    place = f" ({words.format_place(named.where[0])})" if named and named.where else ""
    text = summarize_outcome(diagnosis) or f"{verdict.state.upper()}: {why}{place}"
    if diagnosis.memory is not None and (death := diagnosis.memory.death) is not None:
        text = f"FAILED: out of memory ({death.file}:{death.line})" if death.file else death.error
    return Section("", [Paragraph(text, tone="strong", rows=1), Commands(next_steps, brief=True)])
