from __future__ import annotations

import random

from whyidle.engine.search.cost_forecast import forecast_cost
from whyidle.model.search import Dimension, Report, SearchTrial

SPACE = [
    Dimension(name="width", low=16, high=1024, log=True, whole=True),
    Dimension(name="batch", choices=[32, 64]),
]


def trial(number: int, rng: random.Random, share: float = 1.0) -> SearchTrial:
    """A trial of 4 reports whose duration depends on both values, with some per cent of noise."""
    values = {"width": 2 ** rng.randint(4, 10), "batch": rng.choice([32, 64])}
    seconds = duration(values) * rng.uniform(0.97, 1.03)
    count = round(4 * share)
    reports = [Report(step=i, value=1.0, seconds=seconds * i / 4) for i in range(1, count + 1)]
    ending = "complete" if share == 1.0 else "pruned"
    return SearchTrial(
        number=number, values=values, ending=ending, reports=reports, seconds=seconds * share
    )


def duration(values: dict[str, int]) -> float:
    return 10.0 * (values["width"] / 16) ** 0.5 * 32 / values["batch"]


def test_durations_are_foretold_from_values_also_of_trials_that_were_ended_early():
    rng = random.Random(3)
    trials = [trial(n, rng, share=0.5 if n % 3 == 2 else 1.0) for n in range(12)]
    for values in ({"width": 512, "batch": 64}, {"width": 32, "batch": 32}):
        forecast = forecast_cost(trials, SPACE, values)
        assert forecast is not None
        assert forecast.trials == 12
        assert forecast.low <= duration(values) <= forecast.high
        assert forecast.high / forecast.low < 1.6


def test_nothing_is_foretold_from_two_trials():
    rng = random.Random(3)
    assert (
        forecast_cost([trial(n, rng) for n in range(2)], SPACE, {"width": 32, "batch": 32}) is None
    )
