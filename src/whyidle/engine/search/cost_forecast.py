"""Foretells what a trial will cost, from the trials that ended before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from whyidle.model.search import CostForecast, Dimension, SearchTrial, Value, Values

FEWEST = 3
"""trials below which nothing is predicted: an interval of two points means nothing"""
RIDGE = 0.1
"""penalty of the fit, which keeps coefficients of values that were tried once near 0"""
WIDEST = 0.05
"""least relative half-width: the machine itself varies by a few per cent"""


def forecast_cost(
    trials: Sequence[SearchTrial], dimensions: Sequence[Dimension], values: Values
) -> CostForecast | None:
    """The duration of a whole trial with these values; None before three trials have ended.

    A ridge regression of the logarithm of the duration on the values (logarithms of what is
    searched so; one column for each choice). A trial that was ended early counts with the duration
    that it would have had at the median number of reports of whole trials. The interval holds 90 %
    of the errors of leaving out one trial at a time.
    """
    lengths = [(trial, seconds) for trial in trials if (seconds := _whole_s(trial, trials))]
    if len(lengths) < FEWEST:
        return None
    rows = np.array([_features(dimensions, trial.values) for trial, _ in lengths])
    logs = np.log([seconds for _, seconds in lengths])
    expected = _predict(rows, logs, np.array(_features(dimensions, values)))
    keep = ~np.eye(len(logs), dtype=bool)
    errors = [logs[i] - _predict(rows[keep[i]], logs[keep[i]], rows[i]) for i in range(len(logs))]
    half = max(float(np.quantile(np.abs(errors), 0.9)), WIDEST)
    ends = (math.exp(expected - half), math.exp(expected + half))
    return CostForecast(seconds=math.exp(expected), low=ends[0], high=ends[1], trials=len(lengths))


def _whole_s(trial: SearchTrial, trials: Sequence[SearchTrial]) -> float | None:
    """The duration of a trial, or that which it would have had if it had not been ended."""
    if trial.seconds is None or not trial.reports:
        return None
    if trial.ending == "complete":
        return trial.seconds
    whole = [len(other.reports) for other in trials if other.ending == "complete"]
    if trial.ending != "pruned" or not whole:
        return None
    return trial.reports[-1].seconds / len(trial.reports) * median(whole)


def _features(dimensions: Sequence[Dimension], values: Values) -> list[float]:
    features: list[float] = []
    for dimension in dimensions:
        value = values[dimension.name]
        features += _dimension_features(dimension, value)
    return features


def _dimension_features(dimension: Dimension, value: Value) -> list[float]:
    if dimension.choices:
        return [float(value == choice) for choice in dimension.choices]
    low, high, at = dimension.low, dimension.high, float(value)
    if dimension.log:
        low, high, at = math.log(low), math.log(high), math.log(at)
    return [(at - low) / (high - low)]


def _predict(
    rows: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    logs: np.ndarray[tuple[int], np.dtype[np.float64]],
    at: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> float:
    centre, mean = rows.mean(axis=0), logs.mean()
    inner = (rows - centre).T @ (rows - centre) + RIDGE * np.eye(rows.shape[1])
    slopes = np.linalg.solve(inner, (rows - centre).T @ (logs - mean))
    return float(mean + (at - centre) @ slopes)
