"""Why fixes that were tried are not kept, in few words."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.model.diagnosis import Trial


def reasons(trials: Sequence[Trial]) -> str:
    """Each reason once, in the order of the trials; empty where none is told."""
    return "; ".join(dict.fromkeys(_short(trial.why) for trial in trials if trial.why))


def _short(why: str) -> str:
    """Without the numbers and lines behind it, which the trial itself tells."""
    return ": ".join(why.split(": ")[:2]).partition(" (")[0]
