"""Evaluates rules on samples, as Prometheus does.

A rule's expression is true for a series where the reduced value passes the threshold, enough of the
window was measured, and the guard holds. The alert fires once it has been true at every evaluation
for ``for_s``, and resolves at the first evaluation at which it is not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from whyidle.model.live.alert import Rule
from whyidle.model.live.metric_series import Metric

Key = frozenset[tuple[str, str]]
IDENTITY: Final = {"gpu": ("UUID", "GPU_I_ID", "hostname"), "run": ("run", "hostname")}
"""labels by which a guard belongs to a series"""
QUARTER: Final = 4


@dataclass(frozen=True, slots=True)
class Firing:
    """A series for which a rule fires; ``since`` is when its expression became true."""

    rule: Rule
    labels: Mapping[str, str]
    value: float
    since: float


class Evaluator:
    """Keeps the samples that the rules need, and since when each alert is true."""

    def __init__(self, rules: Sequence[Rule], interval_s: float) -> None:
        self._rules, self._interval_s = list(rules), interval_s
        self._samples: dict[str, dict[Key, deque[tuple[float, float]]]] = {}
        self._since: dict[tuple[str, Key], float] = {}
        wanted = {name for rule in rules for name in (rule.signal, rule.guard) if name}
        self._keep_s = {
            name: max(rule.window_s for rule in rules if name in (rule.signal, rule.guard))
            for name in wanted
        }

    def add_samples(self, when: float, metrics: Iterable[Metric]) -> None:
        """Add the samples of one moment; signals that no rule needs are dropped."""
        for metric in metrics:
            if metric.name not in self._keep_s:
                continue
            series = self._samples.setdefault(metric.name, {})
            for labels, value in metric.samples:
                if not math.isnan(value):
                    series.setdefault(frozenset(labels.items()), deque()).append((when, value))
        for name, series in self._samples.items():
            for key, rows in list(series.items()):
                while rows and rows[0][0] <= when - self._keep_s[name]:
                    rows.popleft()
                if not rows:
                    del series[key]

    def evaluate(self, when: float) -> list[Firing]:
        """Everything that fires at a moment."""
        firing, since = [], {}
        for rule in self._rules:
            for key in self._samples.get(rule.signal, {}):
                labels = dict(key)
                value = self._judge(rule, key, when) if _matches(rule, labels) else None
                if value is None:
                    continue
                begin = since[rule.id, key] = self._since.get((rule.id, key), when)
                if when - begin >= rule.for_s:
                    firing.append(Firing(rule, labels, value, begin))
        self._since = since
        return firing

    def _judge(self, rule: Rule, key: Key, when: float) -> float | None:
        """The value of a series that breaks a rule, else None."""
        known = self._samples.get(rule.signal, {}).get(key, ())
        rows = _samples_between(known, when - rule.window_s, when)
        needed = samples_needed(rule, self._interval_s)
        if len(rows) < needed:
            return None
        value = _reduce(rule, rows, when)
        if value is None or not _passes(rule, value):
            return None
        return value if rule.guard is None or self._is_guarded(rule, key, when) else None

    def _is_guarded(self, rule: Rule, key: Key, when: float) -> bool:
        own = _identity(rule, key)
        for other, rows in self._samples.get(rule.guard or "", {}).items():
            values = [value for _, value in _samples_between(rows, when - rule.window_s, when)]
            if values and _identity(rule, other) == own and min(values) > 0:
                return True
        return False


def samples_needed(rule: Rule, interval_s: float) -> int:
    """Samples in the window without which a series is unknown."""
    return max(1, math.ceil(rule.coverage * rule.window_s / interval_s - 1e-9))


def _samples_between(
    rows: Iterable[tuple[float, float]], after: float, to: float
) -> list[tuple[float, float]]:
    return [(when, value) for when, value in rows if after < when <= to]


def _reduce(rule: Rule, rows: list[tuple[float, float]], when: float) -> float | None:
    values = [value for _, value in rows]
    if rule.reduce == "mean":
        return fmean(values)
    if rule.reduce == "least":
        return min(values)
    if rule.reduce == "most":
        return max(values)
    if rule.reduce == "growth":
        return max(values) - min(values)
    quarter = rule.window_s / QUARTER
    last = [value for _, value in _samples_between(rows, when - quarter, when)]
    first = [
        v for _, v in _samples_between(rows, when - rule.window_s, when - rule.window_s + quarter)
    ]
    if not last or not first or max(first) == 0:
        return None
    return min(last) / max(first)


def _passes(rule: Rule, value: float) -> bool:
    if rule.above is not None:
        return value > rule.above
    return rule.below is not None and value < rule.below


def _matches(rule: Rule, labels: Mapping[str, str]) -> bool:
    return all(labels.get(name) == text for name, text in rule.labels.items())


def _identity(rule: Rule, key: Key) -> tuple[str | None, ...]:
    labels = dict(key)
    return tuple(labels.get(name) for name in IDENTITY[rule.of])
