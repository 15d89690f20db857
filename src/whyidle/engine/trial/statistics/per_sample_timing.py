"""Fixes that give steps more samples: what they gain is told by samples, not by steps."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from whyidle import catalog
from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.loop.candidates import Candidate
from whyidle.engine.trial.loop.trial_result import RejectionReason, declined_reason
from whyidle.engine.trial.statistics.speedup import sample_s, samples_per_step

SLACK = 0.1
"""share by which steps may have grown otherwise: epochs end with smaller batches"""

OF_SAMPLES = "times are of as many samples as a step has without it"


def batch_factor(candidate: Candidate) -> float:
    """So many times as many samples a step is to have."""
    found = [edit.value for edit in candidate.edits if catalog.find_knob(edit.knob).per_sample]
    return float(found[0] or 1.0) if found else 1.0


def changes_batch(candidate: Candidate) -> bool:
    """Whether steps are to have another number of samples."""
    return batch_factor(candidate) != 1.0


def batch_remarks(candidate: Candidate) -> list[str]:
    """What is to be said of its times, if anything, without a full stop."""
    return [OF_SAMPLES] if changes_batch(candidate) else []


def work_s(
    base: Sequence[ProcessReport], treated: Sequence[ProcessReport]
) -> tuple[list[float], list[float]]:
    """Seconds that as many samples take as an untreated step has, for each arm. All of them must
    have counted theirs."""
    size = fmean(samples_per_step(told) or 0.0 for told in base)
    one, another = ([(sample_s(told) or 0.0) * size for told in group] for group in (base, treated))
    return one, another


def explain_incomparable(
    candidate: Candidate, base: ArmResult, treated: ArmResult
) -> RejectionReason | None:
    """Why two arms cannot be compared by samples; None where they can, or need not be."""
    if not changes_batch(candidate):
        return None
    before, after = (samples_per_step(ran.told) if ran.told else None for ran in (base, treated))
    if not before or not after:
        return declined_reason("how many samples a step has was not seen")
    wanted, grown = batch_factor(candidate), after / before
    if abs(grown / wanted - 1.0) > SLACK:
        return declined_reason(
            f"a step then has {grown:.3g} times as many samples, not {wanted:.3g}"
        )
    return None
