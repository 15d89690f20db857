"""The top of a report: how the command ended, the verdict, its key numbers, and what spoils it."""

from __future__ import annotations

from typing import Final

from whyidle.model.buckets import BUCKETS, Bucket
from whyidle.model.diagnosis import Diagnosis, ProposedFix, State
from whyidle.model.number_text import has_only_low_end
from whyidle.reports import _number_format as words
from whyidle.reports._exit_status import describe_exit
from whyidle.reports._findings_page import format_prediction
from whyidle.reports._html.ranks import LATE
from whyidle.reports._html.sections import render_legend
from whyidle.reports._sections import (
    Bar,
    Column,
    Figures,
    Folded,
    Headline,
    Line,
    Paragraph,
    Part,
    Picture,
    Section,
    Span,
    Table,
)
from whyidle.reports._text_page import SUMMARY, whole_clauses
from whyidle.reports._trials_page import (
    explain_no_gain,
    first_fix,
    label_first_fix,
    split_by_run,
    summarize_outcome,
)

STATES: Final[dict[State, tuple[str, str]]] = {
    "starved": ("Starved", "the device waits"),
    "inefficient": ("Inefficient", "the device is busy with work that could be cheaper"),
    "saturated": ("Saturated", "no cause worth more than 3% was found"),
    "inconclusive": ("Inconclusive", "the evidence is insufficient"),
}
SAME_RESULTS: Final = ("none", "rounding")
"""consents of fixes after which a model learns the same"""
_SAME: Final = "learning unchanged:"
STRONGER: Final = 1.05
"""least gain over the first fix for one that changes learning to be told beside it"""
_GROUP: Final = 0.02
"""least share of the kernel time of a group that is named"""


def verdict_parts(diagnosis: Diagnosis, *, brief: bool = False) -> list[Part]:
    """The end of a failed command, the outcome of trials, the verdict, the first fix (``brief``:
    only its gain), and what spoils the measurement."""
    parts: list[Part] = []
    word, exit_text = describe_exit(diagnosis)
    if exit_text:
        parts.append(Headline(exit_text, word, "bad" if word == "failed" else "strong"))
    if outcome := summarize_outcome(diagnosis):
        parts.append(Headline(outcome, "fixed", "good", accent="compute"))
    elif outcome := explain_no_gain(diagnosis):
        parts.append(Headline(outcome, "no fix kept", "strong"))
    state, bound = diagnosis.verdict.state, diagnosis.verdict.bound or "unknown"
    badge = f"before: {state}" if diagnosis.detail.fixed is not None else state
    parts.append(Headline(diagnosis.verdict.headline, badge, state, accent=bound))
    parts += filter(None, [_first_fix(diagnosis, brief=brief), _other_fix(diagnosis)])
    died = brief and diagnosis.memory is not None and diagnosis.memory.death is not None
    spoils = [] if died else diagnosis.coverage.spoils  # one screen has no shares and times then
    return [*parts, *(Paragraph(text, "caution", "caution", rows=2) for text in spoils)]


def _first_fix(diagnosis: Diagnosis, *, brief: bool) -> Paragraph | None:
    """The first fix, and what it is predicted to make of throughput or step time."""
    fix = first_fix(diagnosis)
    if fix is None:
        return None
    gain = f"{format_prediction(fix)}{_describe_gain(diagnosis, fix)}"
    if brief:
        label = _SAME if _keeps_learning(fix) else _other_label(fix)
        return Paragraph(gain, label, rows=2) if gain else None
    content: list[Span | str] = [Span(fix.summary, "good"), f"; {gain}" if gain else ""]
    return Paragraph(content, f"{label_first_fix(fix)}:")


def _keeps_learning(fix: ProposedFix) -> bool:
    return fix.consent in SAME_RESULTS and not fix.changes_batch


def _other_fix(diagnosis: Diagnosis) -> Paragraph | None:
    """The strongest fix of any finding that changes what is learnt, or the batch, where it brings
    more than the first one; beside a first one of this kind, the strongest that does not."""
    first = first_fix(diagnosis)
    known = first.predicted.speedup if first and first.predicted else 1.0
    same = first is None or _keeps_learning(first)
    others = [
        (fix.predicted.speedup, fix)
        for finding in ([] if diagnosis.trials else diagnosis.findings)
        for fix in finding.fixes
        if fix.predicted and fix != first and _keeps_learning(fix) != same
    ]
    gain, fix = max(others, key=lambda pair: pair[0], default=(0.0, None))
    if fix is None or gain < (known if same else 1.0) * STRONGER:
        return None
    label = _other_label(fix) if same else _SAME
    told = f"{format_prediction(fix)}{_describe_gain(diagnosis, fix)}"
    return Paragraph([Span(whole_clauses(fix.summary, SUMMARY), "good"), f"; {told}"], label)


def _other_label(fix: ProposedFix) -> str:
    if words.spares_training(fix):
        return "or:"
    return "if learning may change:" if fix.consent != "none" else "with more samples:"


def _describe_gain(diagnosis: Diagnosis, fix: ProposedFix) -> str:
    steps = diagnosis.steps
    if fix.predicted is None or steps.mean_s is None:
        return ""
    if steps.samples_per_s:
        after = words.format_digits(steps.samples_per_s * fix.predicted.speedup)
        return f", {after} samples/s"
    return (
        ""
        if fix.changes_batch
        else f", {words.format_seconds(steps.mean_s / fix.predicted.speedup)} a step"
    )


def figures(diagnosis: Diagnosis) -> Figures:
    """The key numbers of the run; of a fixed job before and after."""
    used, steps, fixed = diagnosis.utilization, diagnosis.steps, diagnosis.detail.fixed
    rows: list[tuple[str, str, str]] = []
    if fixed is not None and fixed.speedup:
        low, high = fixed.low or fixed.speedup, fixed.high or fixed.speedup
        ends = "" if has_only_low_end(low, high) else words.format_bracketed(low, high)
        gain = words.format_gain(fixed.speedup, low, high)
        rows.append(("all kept fixes", f"{gain}×", f"as fast{ends}"))
    if steps.mean_s is not None:
        rows.append(_step_figure(diagnosis, steps.mean_s))
    compute = words.format_percent(diagnosis.attribution.compute)
    if fixed is not None:
        compute += f" → {words.format_percent(fixed.attribution.compute)}"
    if diagnosis.attribution.unknown < 1.0:
        rows.append(("useful compute", compute, "of the step"))
    for title, value, note in (
        ("device busy", used.busy, "of the time, as GPU-Util"),
        ("tensor cores active", used.tensor_active, "of the step"),
        ("model FLOPs utilisation", used.mfu, "of the dense peak"),
    ):
        rows += [(title, words.format_percent(value), note)] if value is not None else []
    if used.memory_peak_bytes is not None:
        total = diagnosis.device.memory_bytes
        note = f"of {words.format_bytes(total)}" if total else "allocated"
        rows.append(("memory peak", words.format_bytes(used.memory_peak_bytes), note))
    before = fixed.samples_per_s_before if fixed is not None else steps.samples_per_s
    if before is not None:
        rate = words.format_digits(before)
        if fixed is not None and fixed.samples_per_s:
            rate += f" → {words.format_digits(fixed.samples_per_s)}"
        rows.append(("throughput", rate, "samples/s"))
    return Figures(rows)


def _step_figure(diagnosis: Diagnosis, mean_s: float) -> tuple[str, str, str]:
    steps, fixed = diagnosis.steps, diagnosis.detail.fixed
    value = words.format_seconds(mean_s)
    if fixed is not None and fixed.speedup:
        return "step", f"{value} → {words.format_seconds(mean_s / fixed.speedup)}", "measured"
    note = f"in {steps.count} steady step{'s' if steps.count != 1 else ''}"
    if steps.p95_s is not None and steps.p95_s > 1.1 * mean_s:
        note += f", 95th percentile {words.format_seconds(steps.p95_s)}"
    return "step", value, note


def attribution_section(diagnosis: Diagnosis) -> Section | None:
    """The bar of the step with its legend and the finer reasons; None if no step was seen."""
    if not diagnosis.detail.ranks or diagnosis.saw_nothing:
        return None
    shares = bucket_shares(diagnosis)
    finer = sorted(
        (r for r in diagnosis.detail.reasons if r.share >= 0.0005 and r.reason != "compute"),
        key=lambda reason: -reason.share,
    )
    rows: list[list[Line]] = [[words.format_percent(r.share), r.meaning] for r in finer]
    table = Table([Column("share", True), Column("reason")], rows)
    parts: list[Part | None] = [
        Bar(shares),
        Picture(lambda: render_legend(shares)),
        Folded("Finer reasons", [table]) if rows else None,
        _kernel_groups(diagnosis),
    ]
    went = "went" if diagnosis.detail.fixed is not None else "goes"
    return Section(f"Where the step {went}", parts, "attribution")


def bucket_shares(diagnosis: Diagnosis) -> dict[Bucket, float]:
    """The attribution by bucket."""
    return {bucket: getattr(diagnosis.attribution, bucket) for bucket in BUCKETS}


def _kernel_groups(diagnosis: Diagnosis) -> Paragraph | None:
    groups = {name: s for name, s in diagnosis.detail.groups.items() if s >= _GROUP}
    if list(groups) in ([], ["other"]):
        return None
    listed = [f"{n.replace('_', ' ')} {words.format_percent(s)}" for n, s in groups.items()]
    label = "operators" if diagnosis.device.kind == "cpu" else "kernel time"
    return Paragraph(", ".join(listed), f"{label}:", "dim")


def setting(diagnosis: Diagnosis, *, brief: bool = False) -> list[Part]:
    """What was recorded, and how the ranks compare; unless ``brief``, beside the key numbers."""
    steps, device = diagnosis.steps, diagnosis.device
    facts = ["" if brief else diagnosis.recording.title] if diagnosis.recording else []
    detected = f"steps detected by {steps.detected_by}" if steps.detected_by else ""
    facts.append(describe_steps(diagnosis) if brief or steps.mean_s is None else detected)
    used = diagnosis.utilization
    if brief and used.busy is not None:
        title = "device busy" if device.kind == "cpu" else "device busy (GPU-Util)"
        facts.append(f"{title} {words.format_percent(used.busy)}")
    if brief and used.mfu is not None:
        facts.append(f"{words.format_percent(used.mfu)} of the peak FLOPs")
    if brief and steps.samples_per_s:
        facts.append(f"{words.format_digits(steps.samples_per_s)} samples/s")
    if device.name:
        facts.append(f"{device.name}{f' × {device.count}' if device.count > 1 else ''}")
    elif device.kind != "other" and not diagnosis.saw_nothing:
        facts.append(f"{device.kind} device")
    most = 2 if brief else None
    parts: list[Part] = [Paragraph(" · ".join(filter(None, facts)), rows=most)]
    if len(diagnosis.detail.ranks) > 1 or diagnosis.run.ranks > 1:
        parts.append(Paragraph(_describe_ranks(diagnosis), rows=most))
    return parts


def describe_steps(diagnosis: Diagnosis) -> str:
    """Number and length of the steps."""
    steps = diagnosis.steps
    if steps.mean_s is None and not diagnosis.run.duration_s:
        return "a state, without times"
    if steps.mean_s is None:
        return f"no step boundaries, {words.format_seconds(diagnosis.run.duration_s)} recorded"
    plural = "" if steps.count == 1 else "s"
    text = f"{steps.count} step{plural} of {words.format_seconds(steps.mean_s)}"
    if steps.p95_s is not None and steps.p95_s > 1.1 * steps.mean_s:
        text += f" (95th percentile {words.format_seconds(steps.p95_s)})"
    if steps.warmup:
        text += f" after {steps.warmup} warm-up step{'s' if steps.warmup != 1 else ''}"
    return text


def _describe_ranks(diagnosis: Diagnosis) -> str:
    rows = diagnosis.detail.ranks
    text = f"{len(rows) or diagnosis.run.ranks} of {diagnosis.run.ranks} ranks"
    late = [row for row in rows if (row.lateness_s or 0.0) >= LATE * (row.step_s or 0.0) > 0.0]
    if late:
        worst = max(late, key=lambda row: row.lateness_s or 0.0)
        late_by = words.format_seconds(worst.lateness_s)
        text += f" · rank {worst.rank} arrives last at collectives, by {late_by}"
    for row in diagnosis.detail.what_if:
        text += f" · {row.name}: {words.format_seconds(row.step_s)} a step"
    return text


def kept_settings(diagnosis: Diagnosis) -> list[Line]:
    """The settings of the kept fixes."""
    return [[Span("kept: ", "good"), trial.summary]
            for trial in split_by_run(diagnosis)[0] if trial.kept]  # fmt: skip
