"""Fixes that give steps more samples: what they gain is told by samples, not by steps."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from whyidle import catalog
from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.candidates import Candidate
from whyidle.engine.trial.judgement import Reason, declined
from whyidle.engine.trial.pair import batch, sample_s
from whyidle.engine.trial.told import Told

SLACK = 0.1
"""share by which steps may have grown otherwise: epochs end with smaller batches"""

OF_SAMPLES = "times are of as many samples as a step has without it"


def times(candidate: Candidate) -> float:
    """So many times as many samples a step is to have."""
    found = [edit.value for edit in candidate.edits if catalog.find_knob(edit.knob).per_sample]
    return float(found[0] or 1.0) if found else 1.0


def resized(candidate: Candidate) -> bool:
    """Whether steps are to have another number of samples."""
    return times(candidate) != 1.0


def remarks(candidate: Candidate) -> list[str]:
    """What is to be said of its times, if anything, without a full stop."""
    return [OF_SAMPLES] if resized(candidate) else []


def work_s(base: Sequence[Told], treated: Sequence[Told]) -> tuple[list[float], list[float]]:
    """Seconds that as many samples take as an untreated step has, for each arm. All of them must
    have counted theirs."""
    size = fmean(batch(told) or 0.0 for told in base)
    one, another = ([(sample_s(told) or 0.0) * size for told in group] for group in (base, treated))
    return one, another


def unlike(candidate: Candidate, base: Ran, treated: Ran) -> Reason | None:
    """Why two arms cannot be compared by samples; None where they can, or need not be."""
    if not resized(candidate):
        return None
    before, after = (batch(ran.told) if ran.told else None for ran in (base, treated))
    if not before or not after:
        return declined("how many samples a step has was not seen")
    wanted, grown = times(candidate), after / before
    if abs(grown / wanted - 1.0) > SLACK:
        return declined(f"a step then has {grown:.3g} times as many samples, not {wanted:.3g}")
    return None
