"""Reads one watched process of a recording and interprets its stack samples."""

from __future__ import annotations

from pathlib import Path

from whyidle.analysis.sampling.interpretation import interpret_samples
from whyidle.model.timeline import Timeline
from whyidle.readers import probe


def read_process(path: Path) -> Timeline:
    """Read the process of a ``PID.spans`` file.

    Raises:
        BrokenTraceError: the file is unreadable.
    """
    return interpret_samples(probe.load(path))
