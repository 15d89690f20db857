"""Reads one watched process of a recording, its stack samples interpreted."""

from __future__ import annotations

from pathlib import Path

from whyidle.analysis.sampling.interpretation import interpret_samples
from whyidle.importers import probe
from whyidle.model.timeline import Timeline


def read_process(path: Path) -> Timeline:
    """The process whose ``PID.spans`` file this is.

    Raises:
        BrokenTraceError: nothing in it could be read.
    """
    return interpret_samples(probe.load(path))
