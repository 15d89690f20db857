"""Timing per sample, for fixes that change the number of samples of a step."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from whyidle import catalog
from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.loop.candidates import Candidate
from whyidle.engine.trial.loop.trial_result import RejectionReason, declined_reason
from whyidle.engine.trial.statistics.speedup import sample_s, samples_per_step

SLACK = 0.1  # allowed relative error of the batch size: epochs end with smaller batches

OF_SAMPLES = "times refer to the number of samples of an original step"


def batch_factor(candidate: Candidate) -> float:
    """Factor by which a fix multiplies the samples of a step."""
    factors = [edit.value for edit in candidate.edits if catalog.find_knob(edit.knob).per_sample]
    return float(factors[0] or 1.0) if factors else 1.0


def changes_batch(candidate: Candidate) -> bool:
    """Whether a fix changes the number of samples of a step."""
    return batch_factor(candidate) != 1.0


def batch_remarks(candidate: Candidate) -> list[str]:
    """Remarks on the times of a fix, without full stop."""
    return [OF_SAMPLES] if changes_batch(candidate) else []


def work_s(
    base: Sequence[ProcessReport], treated: Sequence[ProcessReport]
) -> tuple[list[float], list[float]]:
    """Seconds per original number of samples, for each arm. All arms must have counted samples."""
    size = fmean(samples_per_step(report) or 0.0 for report in base)
    base_s, treated_s = (
        [(sample_s(report) or 0.0) * size for report in group] for group in (base, treated)
    )
    return base_s, treated_s


def explain_incomparable(
    candidate: Candidate, base: ArmResult, treated: ArmResult
) -> RejectionReason | None:
    """Explain why two arms cannot be compared per sample; None if they can, or need not be."""
    if not changes_batch(candidate):
        return None
    before, after = (
        samples_per_step(ran.report) if ran.report else None for ran in (base, treated)
    )
    if not before or not after:
        return declined_reason("the number of samples of a step was not recorded")
    wanted, grown = batch_factor(candidate), after / before
    if abs(grown / wanted - 1.0) > SLACK:
        return declined_reason(
            f"a step has {grown:.3g} times as many samples with it, not {wanted:.3g}"
        )
    return None
