"""What came of trying fixes, for a terminal: predicted beside measured, and why it was kept."""

from __future__ import annotations

from whyidle.exporters import _words as words
from whyidle.exporters._bar import bar
from whyidle.exporters._page import Page
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis, Predicted, Trial


def trials(page: Page, diagnosis: Diagnosis) -> None:
    """A block for each, then all of them together, and what remains."""
    for trial in diagnosis.trials:
        page.gap()
        _trial(page, trial)
    healed = diagnosis.detail.healed
    if healed is None:
        return
    page.gap()
    gain = gained(healed.speedup, healed.low, healed.high)
    page.line(page.text(f"all of it together: {gain}", "bold"), indent=2)
    page.line(page.text("before"), indent=2)
    bar(page, {bucket: getattr(diagnosis.attribution, bucket) for bucket in BUCKETS})
    page.line(page.text("after"), indent=2)
    bar(page, {bucket: getattr(healed.attribution, bucket) for bucket in BUCKETS})
    for sentence in healed.left:
        page.line(page.text(sentence), head=page.text("left  ", "dim"), indent=2)


def _trial(page: Page, trial: Trial) -> None:
    mark = page.text("KEPT  " if trial.kept else "no    ", "bold green" if trial.kept else "dim")
    name = f"{trial.treatment} for {trial.cause}" if trial.cause else trial.treatment
    page.line(page.text(name, "bold" if trial.kept else ""), head=mark, indent=2)
    rows = [
        ("sets", trial.summary),
        ("gain", gained(trial.speedup, trial.low, trial.high, trial.pairs)),
        ("", f"predicted {promised(trial.promised)}" if trial.promised else ""),
        ("check", trial.numerics or ""),
        ("once", _once(trial)),
        ("why", "" if trial.kept else trial.why),
    ]
    for label, text in rows:
        if text:
            page.line(page.text(text), head=page.text(f"{label:<7}", "dim"), indent=8)


def gained(
    speedup: float | None, low: float | None, high: float | None, pairs: int | None = None
) -> str:
    """A measured gain with its interval, in words; empty where none was measured."""
    if speedup is None:
        return ""
    text = f"{words.factor(speedup)}× as fast"
    if pairs == 1 or low is None or high is None or high > 100 * max(low, 0.01):
        return f"{text}, measured once"
    return f"{text} ({words.factor(low)} to {words.factor(high)}, measured)"


def promised(predicted: Predicted) -> str:
    """A prediction with its interval."""
    low, high = words.factor(predicted.low), words.factor(predicted.high)
    return f"{words.factor(predicted.speedup)}× ({low} to {high})"


def _once(trial: Trial) -> str:
    """What it costs before the first steady step, and when that has paid."""
    costs, base, treated = trial.startup_s, trial.baseline, trial.treated
    if not trial.kept or costs is None or costs < 1.0 or base is None or treated is None:
        return ""
    pays = costs / (base - treated) * treated if base > treated else None
    after = f", paid back after {words.seconds(pays)}" if pays is not None else ""
    return f"{words.seconds(costs)} more until it runs steadily{after}"
