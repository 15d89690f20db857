"""Makes the document of a search from its study."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from whyidle.model.documents.search import Search, SearchSetup, SearchTrial, is_better
from whyidle.planning.search.study import SearchFile, read_trials
from whyidle.version import __version__


def make_search(folder: Path, search: SearchFile, study: Any) -> Search:
    """The document, whole or of a search that goes on."""
    trials, setup = read_trials(study), search.setup
    best = best_trial(trials, setup)
    return Search(
        whyidle=__version__,
        folder=str(folder),
        setup=setup,
        trials=trials,
        best=best.number if best else None,
        notes=[
            *_starved_notes(trials, setup),
            *_beside_notes(trials),
        ],
    )


def best_trial(trials: list[SearchTrial], setup: SearchSetup) -> SearchTrial | None:
    """The best whole trial."""
    best: tuple[float, SearchTrial] | None = None
    for trial in trials:
        if trial.ending != "complete" or trial.metric is None:
            continue
        if best is None or is_better(trial.metric, best[0], setup.direction):
            best = trial.metric, trial
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
    heals = "--plan PLAN from whyidle fix mends the loader for all trials"
    rest = heals if setup.plan is None else "the kept fixes do not remove that"
    return [
        f"{len(starved)} of {len(trials)} trials were starved{named}: their times compare data "
        f"pipelines, not models; {rest}."
    ]


def _beside_notes(trials: list[SearchTrial]) -> list[str]:
    most = max((trial.beside for trial in trials), default=1)
    if most < 2:
        return []
    return [f"Up to {most} trials ran side by side: their durations are longer than alone."]
