"""The same rules as a Prometheus rule file.

Windows are written a second shorter, so that Prometheus 2, whose windows include both ends, and
Prometheus 3, whose windows exclude the first, select the same samples.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from whyidle.machine.alerts.evaluation import IDENTITY, QUARTER, samples_needed
from whyidle.model.live.alert import Rule

_OVER_TIME = {"mean": "avg_over_time", "least": "min_over_time", "most": "max_over_time"}


def write_rules(rules: Sequence[Rule], interval_s: float) -> str:
    """A rule file in YAML. ``interval_s`` is the time between samples and between evaluations."""
    lines = [
        "# Written by `whyidle alerts --rules`: the rules that whyidle itself evaluates.",
        "groups:",
        "  - name: whyidle",
        f"    interval: {_duration(interval_s)}",
        "    rules:" if rules else "    rules: []",
    ]
    for rule in rules:
        labels = {"severity": rule.severity, "rule": rule.id}
        labels |= {"cause": rule.cause} if rule.cause else {}
        lines += [
            f"      - alert: {alert_name(rule)}",
            f"        expr: {_quote(expression(rule, interval_s))}",
        ]
        lines += [f"        for: {_duration(rule.for_s)}"] if rule.for_s else []
        lines += ["        labels:"]
        lines += [f"          {name}: {_quote(text)}" for name, text in labels.items()]
        subject = "{{ $labels.run }}" if rule.of == "run" else "GPU {{ $labels.gpu }}"
        summary = f"{subject} on {{{{ $labels.hostname }}}}: {rule.summary}"
        lines += ["        annotations:", f"          summary: {_quote(summary)}"]
    return "\n".join(lines) + "\n"


def alert_name(rule: Rule) -> str:
    """``idle-held`` as ``WhyidleIdleHeld``."""
    return "Whyidle" + "".join(word.capitalize() for word in rule.id.replace("_", "-").split("-"))


def expression(rule: Rule, interval_s: float) -> str:
    """The rule's condition in PromQL."""
    series = _selector(rule)
    window = _window(rule.window_s)
    value = _value(rule, series)
    limit = f"> {rule.above!r}" if rule.above is not None else f"< {rule.below!r}"
    parts = [f"{value} {limit}"]
    parts.append(f"count_over_time({series}[{window}]) >= {samples_needed(rule, interval_s)}")
    text = " and ".join(parts)
    if rule.guard:
        on = ", ".join(IDENTITY[rule.of])
        text += f" and on ({on}) min_over_time({rule.guard}[{window}]) > 0"
    return text


def _value(rule: Rule, series: str) -> str:
    window = _window(rule.window_s)
    if rule.reduce in _OVER_TIME:
        return f"{_OVER_TIME[rule.reduce]}({series}[{window}])"
    if rule.reduce == "growth":
        return f"(max_over_time({series}[{window}]) - min_over_time({series}[{window}]))"
    quarter = rule.window_s / QUARTER
    part, back = _window(quarter), _duration(rule.window_s - quarter)
    first = f"max_over_time({series}[{part}] offset {back})"
    return f"(min_over_time({series}[{part}]) / ({first} != 0))"


def _selector(rule: Rule) -> str:
    if not rule.labels:
        return rule.signal
    inside = ", ".join(f"{name}={json.dumps(text)}" for name, text in rule.labels.items())
    return f"{rule.signal}{{{inside}}}"


def _window(seconds: float) -> str:
    return _duration(seconds - 1)


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms" if seconds % 1 else f"{round(seconds)}s"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
