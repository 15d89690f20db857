"""What came of trying fixes, for a terminal: predicted beside measured, and why it was kept."""

from __future__ import annotations

from whyidle.exporters import _number_format as words
from whyidle.exporters._shares_bar import draw_shares_bar
from whyidle.exporters._text_page import Page
from whyidle.exporters._trial_outcomes import collect_reasons, order_findings
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis, FixedJob, ProposedFix, SearchedValue, Trial

UNTRIED = "not measured"
ALIKE = 0.05
"""share by which peaks of memory differ from run to run, without meaning anything"""


def draw_trials(page: Page, diagnosis: Diagnosis) -> None:
    """A block for each that was tried, then all of them together, what remains, and what was not
    tried."""
    tried, untried = split_by_run(diagnosis)
    for trial in tried:
        page.write_blank_line()
        _draw_trial(page, trial)
    fixed = diagnosis.detail.fixed
    if fixed is not None:
        page.write_blank_line()
        _fixed_job(page, diagnosis, fixed)
    if untried:
        page.write_blank_line()
        page.write_paragraph(page.styled_text("not tried", "dim"), indent=2)
    for trial in untried:
        head = page.styled_text(f"{trial.fix}: ")
        gain = f", predicted {words.format_speedup(trial.promised)}" if trial.promised else ""
        page.write_paragraph(page.styled_text(f"{trial.why}{gain}"), head=head, indent=4)
        if trial.summary and not trial.edits:  # advice: nothing else says what to do
            page.write_paragraph(page.styled_text(trial.summary, "dim"), indent=6)


def summarize_outcome(diagnosis: Diagnosis) -> str:
    """What trials came to, in a few words; empty where nothing was kept."""
    fixed, kept = diagnosis.detail.fixed, [one for one in diagnosis.trials if one.kept]
    if fixed is None or not kept:
        return ""
    names = ", ".join(trial.fix for trial in kept)
    told = "; ".join(
        [f"{_count_fixes(len(kept))} kept: {names}", *_explain_interruption(diagnosis)]
    )
    if fixed.speedup is None:
        return f"{told}; {UNTRIED} together"
    return f"{words.format_factor(fixed.speedup)}× as fast with {told}"


def explain_no_gain(diagnosis: Diagnosis) -> str:
    """That trials came to nothing, and why; empty where something was kept, or none was
    asked for."""
    tried, untried = split_by_run(diagnosis)
    if not diagnosis.trials or any(trial.kept for trial in tried):
        return ""
    if interrupted := _explain_interruption(diagnosis):
        done = [trial for trial in tried if not trial.interrupted]
        why = collect_reasons(done)
        came = f"{_count_fixes(len(done))} tried before, none kept{why and f': {why}'}"
        return "; ".join([*interrupted, came if done else "none had been tried before"])
    if not tried:
        return f"{_count_fixes(len(untried))} known, none could be tried: see why not"
    why = collect_reasons(tried)
    return f"{_count_fixes(len(tried))} tried, none kept{why and f': {why}'}"


def _explain_interruption(diagnosis: Diagnosis) -> list[str]:
    """That the user ended it, and amid what; nothing where nobody did."""
    whole = [trial for trial in diagnosis.trials if trial.interrupted]
    amid = [trial.fix for trial in whole if trial.tried]
    begun = len(whole) - len(amid)
    told = f"interrupted{f' while {amid[0]} was tried' if amid else ''}"
    return [f"{told}{f', {_count_fixes(begun)} not begun' if begun else ''}"] if whole else []


def first_fix(diagnosis: Diagnosis) -> ProposedFix | None:
    """The first fix of the finding that the verdict is about, or else of the first that has one;
    where fixes were tried, what came of them stands in its place."""
    for finding in order_findings(diagnosis) if not diagnosis.trials else ():
        if finding.severity != "info" and finding.fixes:
            return finding.fixes[0]
    return None


def _count_fixes(count: int) -> str:
    return f"{count} fix{'es' if count > 1 else ''}"


def split_by_run(diagnosis: Diagnosis) -> tuple[list[Trial], list[Trial]]:
    """Those that ran at least once, and those that did not."""
    tried = [trial for trial in diagnosis.trials if trial.tried]
    return tried, [trial for trial in diagnosis.trials if not trial.tried]


def _fixed_job(page: Page, diagnosis: Diagnosis, fixed: FixedJob) -> None:
    gain = format_gain(fixed.speedup, fixed.low, fixed.high) or UNTRIED
    page.write_paragraph(page.styled_text(f"all of it together: {gain}", "bold"), indent=2)
    for sentence in format_savings(fixed):
        page.write_paragraph(page.styled_text(sentence), indent=2)
    for name, shares in (("before", diagnosis.attribution), ("after", fixed.attribution)):
        page.write_paragraph(page.styled_text(name), indent=2)
        draw_shares_bar(page, {bucket: getattr(shares, bucket) for bucket in BUCKETS})
    for sentence in fixed.left:
        page.write_paragraph(
            page.styled_text(sentence), head=page.styled_text("left  ", "dim"), indent=2
        )


def format_savings(fixed: FixedJob) -> list[str]:
    """What it comes to in samples, hours, and at a stated price in money; joules where measured."""
    told = []
    if fixed.samples_per_s and fixed.samples_per_s_before:
        before, after = fixed.samples_per_s_before, fixed.samples_per_s
        told.append(f"{words.format_digits(before)} samples/s became {words.format_digits(after)}")
    if fixed.speedup and fixed.speedup > 1.0:
        hours = 100 * (1 - 1 / fixed.speedup)
        price = fixed.price_per_hour
        money = f", {hours * price:,.2f} at {price:,.2f} an hour" if price is not None else ""
        told.append(f"of every 100 hours of this job {hours:.0f} are saved{money}")
    if fixed.energy_j_per_step and fixed.energy_j_per_step_before:
        before, after = fixed.energy_j_per_step_before, fixed.energy_j_per_step
        told.append(f"{words.format_digits(before)} J a step became {words.format_digits(after)}")
    return told


def _draw_trial(page: Page, trial: Trial) -> None:
    mark = page.styled_text(
        "KEPT      " if trial.kept else "not kept  ", "bold green" if trial.kept else "dim"
    )
    name = f"{trial.fix} for {trial.cause}" if trial.cause else trial.fix
    page.write_paragraph(page.styled_text(name, "bold" if trial.kept else ""), head=mark, indent=2)
    rows = [
        ("sets", trial.summary),
        ("of", format_search(trial)),
        ("gain", format_measurement(trial)),
        ("", f"predicted {format_prediction(trial)}" if trial.promised else ""),
        ("consent", words.CONSENTS[trial.consent]),
        ("check", trial.numerics or ""),
        ("memory", format_memory(trial)),
        ("once", _format_startup_cost(trial)),
        ("why", "" if trial.kept else trial.why),
        *(("seen", note) for note in trial.notes),
    ]
    for label, text in rows:
        if text:
            page.write_paragraph(
                page.styled_text(text), head=page.styled_text(f"{label:<9}", "dim"), indent=12
            )


def format_search(trial: Trial) -> str:
    """Which numbers of a knob were tried before, to choose the fastest; empty where none were."""
    told = [f"{one.value} {_came(one)}" for one in trial.searched]
    return f"{trial.searched[0].knob}: {', '.join(told)}" if told else ""


def _came(one: SearchedValue) -> str:
    if one.ended == "through":
        return f"({words.format_seconds(one.step_s)} a step)"
    return {"early": "(slower, ended early)"}.get(one.ended, f"({one.ended})")


def format_measurement(trial: Trial) -> str:
    """What a trial measured, in words; empty where nothing was. Where it cannot tell a gain from a
    loss, the interval only: its middle would be read as a result."""
    if not trial.untold:
        return format_gain(trial.speedup, trial.low, trial.high, trial.pairs or None)
    if trial.low is None or trial.high is None or words.is_uninformative(trial.low, trial.high):
        return f"could not be told: {trial.pairs} pairs scatter too much"
    low, high = words.format_factor(trial.low), words.format_factor(trial.high)
    return f"could not be told: {low}× to {high}× as fast"


def format_gain(
    speedup: float | None, low: float | None, high: float | None, pairs: int | None = None
) -> str:
    """A measured gain with its interval, in words; empty where none was measured."""
    if speedup is None:
        return ""
    text = f"{words.format_factor(speedup)}× as fast"
    if pairs == 1:
        return f"{text}, measured once"
    if low is None or high is None or words.is_uninformative(low, high):
        seen = f"measured in {pairs} pairs, which" if pairs else "by times that"
        return f"{text}, {seen} scatter too much to tell it well"
    return f"{text}{words.format_bracketed(low, high, 'measured')}"


def format_prediction(trial: Trial) -> str:
    """What was predicted, and for which number of the knob, where another one was then found to be
    faster; empty where nothing was predicted."""
    if trial.promised is None:
        return ""
    own = {edit.knob: edit.value for edit in trial.edits}
    first = trial.searched[0] if trial.searched else None
    other = first is not None and own.get(first.knob, first.value) != first.value
    return words.format_speedup(trial.promised) + (
        f", for {first.value}" if first and other else ""
    )


def format_memory(trial: Trial) -> str:
    """What the job holds at most without the fix and with it, where that differs; empty where it
    does not, or is not known."""
    told = [
        f"{where} {words.format_bytes(before)} became {words.format_bytes(after)}"
        for where, before, after in (
            ("host", trial.host_bytes_before, trial.host_bytes),
            ("device", trial.device_bytes_before, trial.device_bytes),
        )
        if before is not None and after is not None and abs(after - before) > ALIKE * before
    ]
    return f"peak of the {', of the '.join(told)}" if told else ""


def _format_startup_cost(trial: Trial) -> str:
    """What it costs before the first steady step, and when that has paid."""
    costs, steps, treated = trial.startup_s, trial.pays_after_steps, trial.treated
    if not trial.kept or costs is None or costs < 1.0:
        return ""
    if not steps or treated is None:
        return f"{words.format_seconds(costs)} more until it runs steadily"
    after = f"{words.format_digits(steps)} steps ({words.format_seconds(steps * treated)})"
    return f"{words.format_seconds(costs)} more until it runs steadily, pays after {after}"
