"""Which values to try next, and which trials to end early: Optuna, in memory.

Optuna's own state is never kept: a resumed search replays its ledger through the same calls, so
that samplers and pruners know exactly what they knew. Each proposal draws from a generator of its
own, seeded by the search's seed and the number of the choice, so that a search of one trial at a
time proposes after a resume what it would have proposed without the crash.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from whyidle.engine.search.ledger import Ended, Line, Reported, Started
from whyidle.engine.search.space import grid_points
from whyidle.errors import MissingExtraError
from whyidle.model.search import (
    Dimension,
    Report,
    SearchSetup,
    SearchTrial,
    Value,
    Values,
    improvement_rate,
)

SAMPLERS = ("tpe", "random", "grid")
PRUNERS = ("median", "asha", "none")
ATTEMPTS = 50
"""questions to the sampler for values that were not tried"""
STARTUP = 8
"""random trials before TPE models the space; Optuna's 10 suits searches of hundreds"""
UNPRUNED = 4
"""trials that the median needs before it ends others; Optuna's default is 5"""
UNJUDGED = 2
"""first step that is compared: one value says little, and learning rates may still warm up"""
REDUCTION = 3
"""one in so many trials passes a rung of ASHA, as in its paper's experiments (3 or 4)"""


class Proposals:
    """Proposes values, and judges trials by their reports."""

    def __init__(self, setup: SearchSetup) -> None:
        self._setup = setup
        self._optuna = _load_optuna()
        self._space = {d.name: _distribution(self._optuna, d) for d in setup.dimensions}
        self._grid = list(grid_points(setup.dimensions)) if setup.sampler == "grid" else []
        finite = all(dimension.choices for dimension in setup.dimensions)
        self._size = math.prod(len(d.choices) for d in setup.dimensions) if finite else math.inf
        self._tried: set[tuple[Value, ...]] = set()
        self._choices = 0
        self._running: dict[int, Any] = {}
        self._start: float | None = None  # first value that any trial reported
        self._metric = self._make_study([setup.direction], _pruner(self._optuna, setup.pruner))
        self._goal = (
            None
            if setup.objective == "metric"
            else self._make_study(
                [setup.direction, "minimize"] if setup.objective == "front" else ["maximize"]
            )
        )
        """the study that proposes values, where the metric alone is not the aim"""

    def _make_study(self, directions: Sequence[str], pruner: Any = None) -> Any:
        return self._optuna.create_study(
            directions=list(directions), pruner=pruner or self._optuna.pruners.NopPruner()
        )

    @property
    def is_exhausted(self) -> bool:
        """Whether there are no values that were not tried."""
        return len(self._tried) >= (len(self._grid) or self._size)

    def propose_values(self) -> Values:
        """Values of a new trial, if possible ones that were not tried."""
        number = self._choices
        self._choices += 1
        if self._grid:
            return self._grid[number]
        for attempt in range(ATTEMPTS):
            values = self._ask_sampler(self._setup.seed + 7919 * number + attempt)
            if tuple(values.values()) not in self._tried:
                break
        return values

    def _ask_sampler(self, seed: int) -> Values:
        study = self._goal or self._metric
        study.sampler = self._sampler(seed)
        trial = study.ask(self._space)
        values = dict(trial.params)
        # what is proposed here starts below, by ``start_trial``: this trial was only a question
        study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return values

    def _sampler(self, seed: int) -> Any:
        samplers = self._optuna.samplers
        if self._setup.sampler == "random":
            return samplers.RandomSampler(seed=seed)
        return samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)

    def start_trial(self, number: int, values: Values) -> None:
        """A trial starts with these values."""
        self._tried.add(tuple(values[name] for name in self._space))
        self._metric.enqueue_trial(values)
        self._running[number] = self._metric.ask(self._space)

    def judge_report(self, number: int, report: Report) -> bool:
        """Whether a trial that reports this should be ended."""
        trial = self._running[number]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a step that is reported twice keeps its first value
            trial.report(report.value, report.step)
        return bool(trial.should_prune())

    def end_trial(self, trial: SearchTrial) -> None:
        """A trial has ended."""
        states = self._optuna.trial.TrialState
        running = self._running.pop(trial.number)
        if trial.ending == "complete" and trial.metric is not None:
            self._metric.tell(running, trial.metric)
        else:
            ended = trial.ending == "pruned" and trial.metric is not None
            self._metric.tell(running, state=states.PRUNED if ended else states.FAIL)
        if self._goal is not None and (goal := self._goal_values(trial)) is not None:
            made = self._optuna.trial.create_trial(
                params=trial.values, distributions=self._space, values=goal
            )
            self._goal.add_trial(made)

    def _goal_values(self, trial: SearchTrial) -> list[float] | None:
        self._start = (
            trial.reports[0].value if self._start is None and trial.reports else self._start
        )
        if not trial.is_point or trial.metric is None or not trial.gpu_hours or self._start is None:
            return None
        if self._setup.objective == "front":
            return [trial.metric, trial.gpu_hours]
        return [improvement_rate(trial, self._start, self._setup.direction) or 0.0]

    def count_choice(self) -> None:
        """A replayed trial had values of its own."""
        self._choices += 1


def replay_line(proposals: Proposals, line: Line, ended: SearchTrial | None = None) -> None:
    """Repeat what a line of the ledger says; ``ended`` is the trial that it ends."""
    if isinstance(line, Started):
        if line.retry_of is None:
            proposals.count_choice()
        proposals.start_trial(line.number, line.values)
    elif isinstance(line, Reported):
        proposals.judge_report(line.number, line.report)
    elif isinstance(line, Ended) and ended is not None:
        proposals.end_trial(ended)


def _load_optuna() -> ModuleType:
    try:
        import optuna  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            "A search requires Optuna.", why=f"{error}.", hint='pip install "whyidle[tune]"'
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    kinds = optuna.distributions
    if dimension.choices:
        return kinds.CategoricalDistribution(dimension.choices)
    if dimension.whole:
        return kinds.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return kinds.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _pruner(optuna: Any, name: str) -> Any:
    pruners = optuna.pruners
    if name == "median":
        return pruners.MedianPruner(n_startup_trials=UNPRUNED, n_warmup_steps=UNJUDGED)
    if name == "asha":
        return pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION)
    return pruners.NopPruner()
