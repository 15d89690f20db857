"""Says for one trial whether it was starved, and by what, from its recording."""

from __future__ import annotations

from pathlib import Path

from whyidle.errors import WhyidleError
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.search import TrialVerdict
from whyidle.record.launcher import CommandEnd


def diagnose_trial(recording: Path, command: list[str], ended: CommandEnd) -> TrialVerdict | None:
    """Diagnose a trial; None where no training step was recorded."""
    if next(recording.glob("*.facts.json"), None) is None:
        return None
    from whyidle.record import recording_diagnosis  # noqa: PLC0415  # costs half a second

    recording_diagnosis.note_end(recording, recording.parent.name, command, ended)
    try:
        return summarize_diagnosis(recording_diagnosis.diagnose_recording(recording))
    except WhyidleError:
        return None


def summarize_diagnosis(diagnosis: Diagnosis) -> TrialVerdict:
    """The part of a diagnosis that a trial carries."""
    peak, size = diagnosis.utilization.memory_peak_bytes, diagnosis.device.memory_bytes
    shares = {b: getattr(diagnosis.attribution, b) for b in BUCKETS if b != "compute"}
    return TrialVerdict(
        state=diagnosis.verdict.state,
        headline=diagnosis.verdict.headline,
        cause=diagnosis.verdict.cause,
        device=diagnosis.device.kind,
        devices=diagnosis.device.count,
        busy=diagnosis.utilization.busy,
        memory_share=peak / size if peak and size else None,
        step_s=diagnosis.steps.mean_s,
        samples_per_s=diagnosis.steps.samples_per_s,
        waits={bucket: share for bucket, share in shares.items() if share},
    )
