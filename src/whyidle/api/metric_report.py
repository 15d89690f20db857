"""Reports metrics to the search that runs this script."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def report(
    metrics: Mapping[str, float] | None = None, /, *, step: int | None = None, **more: float
) -> None:
    """Report metrics to ``whyidle tune``, as ``whyidle.report(val_loss=0.3, step=epoch)``.

    Does nothing where no search runs the script.

    Args:
        metrics: values by name, for names that are no identifiers.
        step: the step of the values; the default counts the reports.
        more: values by name.
    """
    path = os.environ.get("WHYIDLE_METRICS")
    if not path:
        return
    lines = [
        {"by": "report", "name": name, "value": float(value), "step": step}
        for name, value in {**(metrics or {}), **more}.items()
    ]
    with Path(path).open("ab") as file:
        file.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
