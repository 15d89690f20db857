"""Why fixes that were tried are not kept, in few words: in all, and beside each where it is
prescribed."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.model.diagnosis import Finding, Prescription, Trial


def reasons(trials: Sequence[Trial]) -> str:
    """Each reason once, in the order of the trials; empty where none is told."""
    return "; ".join(dict.fromkeys(_short(trial.why) for trial in trials if trial.why))


def tried(fix: Prescription, finding: Finding, trials: Sequence[Trial]) -> str:
    """What came of it where it was tried, for this finding or else for another, by the first words
    of the reason, which the trial tells in full; empty where it was not."""
    own = [one for one in trials if one.tried and one.treatment == fix.treatment]
    own = [one for one in own if one.cause == finding.cause] or own
    if any(one.kept for one in own):
        return "tried, and kept"
    head = own[0].why.partition(":")[0] if own else ""
    return f"tried, not kept{head and f': {head}'}" if own else ""


def _short(why: str) -> str:
    """Without the numbers and lines behind it, which the trial itself tells."""
    return ": ".join(why.split(": ")[:2]).partition(" (")[0]
