"""Makes the document of a search from its ledger."""

from __future__ import annotations

from collections import Counter

from whyidle.engine.search.ledger import Ledger, opened_setup
from whyidle.model.search import (
    Search,
    SearchSetup,
    SearchTrial,
    improvement_rate,
    is_better,
    pareto_front,
)
from whyidle.version import __version__


def make_search(ledger: Ledger) -> Search:
    """The document, whole or of a search that goes on."""
    trials, setup = ledger.trials, opened_setup(ledger)
    best = best_trial(trials, setup)
    return Search(
        whyidle=__version__,
        folder=str(ledger.folder),
        setup=setup,
        trials=trials,
        best=best.number if best else None,
        front=pareto_front(trials, setup.direction),
        notes=[*_starved_notes(trials, setup), *_forecast_notes(trials), *_beside_notes(trials)],
    )


def best_trial(trials: list[SearchTrial], setup: SearchSetup) -> SearchTrial | None:
    """The best whole trial by the objective; of two objectives, by the metric."""
    start = next((t.reports[0].value for t in trials if t.reports), 0.0)
    direction = "maximize" if setup.objective == "rate" else setup.direction
    best: tuple[float, SearchTrial] | None = None
    for trial in trials:
        if trial.ending != "complete" or trial.metric is None:
            continue
        value = trial.metric
        if setup.objective == "rate":
            value = improvement_rate(trial, start, setup.direction) or 0.0
        if best is None or is_better(value, best[0], direction):
            best = value, trial
    return best[1] if best else None


def _starved_notes(trials: list[SearchTrial], setup: SearchSetup) -> list[str]:
    starved = [
        trial
        for trial in trials
        if (found := trial.verdict) is not None
        and found.state == "starved"
        and max(found.waits, key=found.waits.__getitem__, default="input") == "input"
    ]
    if not starved:
        return []
    causes = Counter(t.verdict.cause for t in starved if t.verdict and t.verdict.cause)
    named = f", most often by {causes.most_common(1)[0][0]}" if causes else ""
    heals = "--heal (or --plan PLAN from whyidle fix) mends the loader for all trials"
    rest = heals if setup.plan is None else "the kept fixes do not remove that"
    return [
        f"{len(starved)} of {len(trials)} trials were starved{named}: their times compare data "
        f"pipelines, not models; {rest}."
    ]


def _forecast_notes(trials: list[SearchTrial]) -> list[str]:
    predicted = [
        (t.forecast, t.seconds)
        for t in trials
        if t.forecast is not None and t.seconds is not None and t.ending == "complete"
    ]
    if not predicted:
        return []
    within = sum(forecast.low <= seconds <= forecast.high for forecast, seconds in predicted)
    return [
        f"Durations of whole trials within the predicted interval: {within} of {len(predicted)}."
    ]


def _beside_notes(trials: list[SearchTrial]) -> list[str]:
    most = max((trial.beside for trial in trials), default=1)
    if most < 2:
        return []
    return [f"Up to {most} trials ran side by side: their durations are longer than alone."]
