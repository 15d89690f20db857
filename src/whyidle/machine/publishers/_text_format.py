"""Metrics in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.model.live.metric_series import Metric

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def format_page(metrics: Sequence[Metric]) -> str:
    """A page; an empty one without metrics."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            inside = ",".join(
                f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items()
            )
            lines.append(f"{metric.name}{{{inside}}} {value!r}")
    return "".join(f"{line}\n" for line in lines)
