"""The results of trials as sections: predicted and measured gains, and the reasons."""

from __future__ import annotations

from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis, FixedJob, ProposedFix, SearchedValue, Trial
from whyidle.model.fix import CONSENTS
from whyidle.model.number_text import has_only_low_end
from whyidle.reports import _number_format as words
from whyidle.reports._sections import (
    BarRow,
    Bars,
    Card,
    Code,
    Commands,
    Facts,
    Items,
    Line,
    Paragraph,
    Part,
    Section,
    Span,
)
from whyidle.reports._trial_outcomes import collect_reasons, join_trials, order_findings

UNTRIED = "not measured"
MEMORY_NOISE = 0.05
"""share by which peaks of memory vary from run to run"""


def trials_section(diagnosis: Diagnosis) -> Section | None:
    """Each trial, all kept fixes together, what remains, and the fixes that were not tried."""
    if not diagnosis.trials:
        return None
    tried, untried = split_by_run(diagnosis)
    fixed = diagnosis.detail.fixed
    parts: list[Part] = [*(_fixed_job(diagnosis, fixed) if fixed else ())]
    parts += map(_trial_card, tried)
    if untried:
        parts += [
            Paragraph("Not tried", tone="dim"),
            Items([_untried_line(trial) for trial in untried]),
        ]
    return Section("Trials", parts, "trials")


def _untried_line(trial: Trial) -> Line:
    gain = f", predicted {words.format_speedup(trial.promised)}" if trial.promised else ""
    advice = f": {trial.summary}" if trial.summary and not trial.edits else ""
    return [Span(trial.fix, "code"), f": {trial.why}{gain}", Span(advice, "dim")]


def fix_sections(diagnosis: Diagnosis) -> list[Section]:
    """The patch of the kept fixes and the commands that use it; empty if none is kept."""
    fixed = diagnosis.detail.fixed
    if fixed is None:
        return []
    sections = []
    if fixed.patch:
        sections.append(Section("Patch", [Code(fixed.patch)], "patch"))
    if fixed.commands:
        sections.append(Section("Commands", [Commands(fixed.commands)], "commands"))
    return sections


def summarize_outcome(diagnosis: Diagnosis) -> str:
    """The outcome of the trials in a few words; empty if nothing was kept."""
    fixed, kept = diagnosis.detail.fixed, [t for t in split_by_run(diagnosis)[0] if t.kept]
    if fixed is None or not kept:
        return ""
    names = f"{_count_fixes(len(kept))} kept: {', '.join(trial.fix for trial in kept)}"
    text = "; ".join([names, *_explain_interruption(diagnosis)])
    if fixed.speedup is None:
        return f"{text}; {fixed.doubt or f'{UNTRIED} together'}"
    return f"{words.format_gain(fixed.speedup, fixed.low, fixed.high)}× as fast with {text}"


def explain_no_gain(diagnosis: Diagnosis) -> str:
    """Why no fix was kept; empty if one was, or without trials."""
    tried, untried = split_by_run(diagnosis)
    if not diagnosis.trials or any(trial.kept for trial in tried):
        return ""
    if interrupted := _explain_interruption(diagnosis):
        done = [trial for trial in tried if not trial.interrupted]
        why = collect_reasons(done)
        before = f"{_count_fixes(len(done))} tried before, none kept{why and f': {why}'}"
        return "; ".join([*interrupted, before if done else "no fix was tried before"])
    if not tried:
        why = collect_reasons(untried)
        why = " for the reasons below" if ";" in why or not why else f": {why}"
        return f"{_count_fixes(len(untried))} known, none could be tried{why}"
    why = collect_reasons(tried)
    return f"{_count_fixes(len(tried))} tried, none kept{why and f': {why}'}"


def _explain_interruption(diagnosis: Diagnosis) -> list[str]:
    interrupted = [trial for trial in diagnosis.trials if trial.interrupted]
    if not interrupted:
        return []
    started = [trial.fix for trial in interrupted if trial.tried]
    waiting = len(interrupted) - len(started)
    text = f"interrupted{f' during the trial of {started[0]}' if started else ''}"
    return [f"{text}{f', {_count_fixes(waiting)} not started' if waiting else ''}"]


def first_fix(diagnosis: Diagnosis) -> ProposedFix | None:
    """The first fix of the first finding; None if fixes were tried."""
    first = next(iter(order_findings(diagnosis)), None)
    if diagnosis.trials or first is None or first.severity == "info" or not first.fixes:
        return None
    return first.fixes[0]


def label_first_fix(fix: ProposedFix) -> str:
    """Tell whether ``whyidle fix`` would try it."""
    return "first fix" if fix.automatic else "first fix, by hand"


def _count_fixes(count: int) -> str:
    return f"{count} fix{'es' if count > 1 else ''}"


def split_by_run(diagnosis: Diagnosis) -> tuple[list[Trial], list[Trial]]:
    """The trials that ran, those of one setting together, and those that did not run."""
    tried = join_trials([trial for trial in diagnosis.trials if trial.tried])
    return tried, [trial for trial in diagnosis.trials if not trial.tried]


def _fixed_job(diagnosis: Diagnosis, fixed: FixedJob) -> list[Part]:
    gain = format_gain(fixed.speedup, fixed.low, fixed.high) or fixed.doubt or UNTRIED
    bars = [
        BarRow(name, {bucket: getattr(shares, bucket) for bucket in BUCKETS})
        for name, shares in (("before", diagnosis.attribution), ("after", fixed.attribution))
    ]
    return [
        Paragraph(gain, label="all kept fixes together", tone="strong"),
        *map(Paragraph, format_savings(fixed)),
        Bars(bars),
        *(Paragraph(sentence, label="remaining") for sentence in fixed.left),
    ]


def format_savings(fixed: FixedJob) -> list[str]:
    """The savings in throughput, hours, money at a stated price, and energy where measured."""
    savings = []
    only_low = has_only_low_end(fixed.low, fixed.high)
    least, gain = ("at least ", fixed.low) if only_low else ("", fixed.speedup)
    if fixed.samples_per_s and fixed.samples_per_s_before:
        told = fixed.samples_per_s_before * gain if only_low and gain else fixed.samples_per_s
        before, after = map(words.format_digits, (fixed.samples_per_s_before, told))
        savings.append(f"throughput: {before} → {least}{after} samples/s")
    hours = 100 * (1 - 1 / gain - (fixed.startup_share or 0.0)) if gain else 0.0
    if hours > 0.0:
        price = fixed.price_per_hour
        money = f" ({hours * price:,.2f} at {price:,.2f} per hour)" if price is not None else ""
        savings.append(f"saves {least}{hours:.0f} of every 100 hours of this job{money}")
    if fixed.energy_j_per_step and fixed.energy_j_per_step_before:
        energies = (fixed.energy_j_per_step_before, fixed.energy_j_per_step)
        before, after = map(words.format_digits, energies)
        savings.append(f"energy: {before} → {after} J per step")
    return savings


def _trial_card(trial: Trial) -> Card:
    rows = [
        ("sets", describe_setting(trial)),
        ("search", format_search(trial)),
        ("gain", format_measurement(trial)),
        ("", f"predicted {format_prediction(trial)}" if trial.promised else ""),
        ("changes", CONSENTS[trial.consent]),
        ("check", trial.numerics or ""),
        ("memory", format_memory(trial)),
        ("start", _format_startup_cost(trial)),
        ("why", "" if trial.kept else trial.why),
        *(("note", note) for note in trial.notes),
    ]
    facts: list[tuple[str, Line]] = [(label, text) for label, text in rows if text]
    name = f"{trial.fix} for {trial.cause}" if trial.cause else trial.fix
    badge = "kept" if trial.kept else "not kept"
    return Card(name, badge, [], "compute" if trial.kept else "unknown", [Facts(facts)])


def describe_setting(trial: Trial) -> str:
    """What a trial sets, from the value in the script to the last one."""
    changed = [
        f"{edit.knob} {edit.was} → {edit.value}"
        for edit in trial.edits
        if edit.was is not None and edit.value is not None
    ]
    values = f" ({', '.join(changed)})" if changed else ""
    return f"{trial.summary}{values}"


def format_search(trial: Trial) -> str:
    """The values of a knob that were tried to find the fastest; empty without a search."""
    values = [f"{item.value} {_format_search_result(item)}" for item in trial.searched]
    return f"{trial.searched[0].knob}: {', '.join(values)}" if values else ""


def _format_search_result(item: SearchedValue) -> str:
    if item.ended == "through":
        return f"({words.format_seconds(item.step_s)} per step)"
    return f"({item.ended})"


def format_measurement(trial: Trial) -> str:
    """The measured gain of a trial; empty if nothing was measured. An inconclusive trial shows only
    its interval, since the middle would be read as a result."""
    if not trial.untold:
        return format_gain(trial.speedup, trial.low, trial.high, trial.pairs or None)
    if trial.low is None or trial.high is None or words.is_uninformative(trial.low, trial.high):
        return f"inconclusive: {trial.pairs} pairs vary too much"
    low, high = words.format_factor(trial.low), words.format_factor(trial.high)
    return f"inconclusive: {low}× to {high}× as fast"


def format_gain(
    speedup: float | None, low: float | None, high: float | None, pairs: int | None = None
) -> str:
    """A measured gain with its interval; empty if none was measured."""
    if speedup is None:
        return ""
    text = f"{words.format_factor(speedup)}× as fast"
    if pairs == 1:
        return f"{text}, measured once"
    if low is None or high is None or (low <= 1.0 and words.is_uninformative(low, high)):
        source = f"measured in {pairs} pairs, which" if pairs else "from times that"
        return f"{text}, {source} vary too much for a precise result"
    return words.format_measured(speedup, low, high, "× as fast", "measured")


def format_prediction(trial: Trial) -> str:
    """The prediction for a trial, with the predicted value if the search chose another one; empty
    if nothing was predicted."""
    if trial.promised is None:
        return ""
    text = words.format_speedup(trial.promised)
    values = {edit.knob: edit.value for edit in trial.edits}
    first = trial.searched[0] if trial.searched else None
    if first is not None and values.get(first.knob, first.value) != first.value:
        return f"{text}, for {first.value}"
    return text


def format_memory(trial: Trial) -> str:
    """The peak memory without and with the fix; empty if it is unknown or does not differ."""
    peaks = [
        f"{where} {words.format_bytes(before)} → {words.format_bytes(after)}"
        for where, before, after in (
            ("host", trial.host_bytes_before, trial.host_bytes),
            ("device", trial.device_bytes_before, trial.device_bytes),
        )
        if before is not None and after is not None and abs(after - before) > MEMORY_NOISE * before
    ]
    return f"peak: {', '.join(peaks)}" if peaks else ""


def _format_startup_cost(trial: Trial) -> str:
    costs, steps, treated = trial.startup_s, trial.pays_after_steps, trial.treated
    if not trial.kept or costs is None or costs < 1.0:
        return ""
    text = f"{words.format_seconds(costs)} longer until the first steady step"
    if not steps or treated is None:
        return text
    after = f"{words.format_digits(steps)} steps ({words.format_seconds(steps * treated)})"
    return f"{text}, recovered after {after}"
