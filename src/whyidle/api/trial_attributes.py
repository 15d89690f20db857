"""What a trial of another search engine carries of its diagnosis."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from whyidle.errors import WhyidleError
from whyidle.model.diagnosis import Diagnosis
from whyidle.planning.search.trial_diagnosis import summarize_diagnosis
from whyidle.record.recording_diagnosis import diagnose_recording
from whyidle.store.entry import RECORDING

Attributes = dict[str, str | float | None]


def trial_attributes(diagnosis: Diagnosis | None, seconds: float) -> Attributes:
    """The cause, what the device waited for (shares of the step) and the cost of a trial that took
    ``seconds``. Without a diagnosis only the cost: no training step was seen."""
    if diagnosis is None:
        return {"whyidle.hours": seconds / 3600.0}
    verdict = summarize_diagnosis(diagnosis)
    on_gpu = verdict.device != "cpu"
    hours = seconds / 3600.0 * (max(verdict.devices, 1) if on_gpu else 1)
    attributes: Attributes = {
        "whyidle.state": verdict.state,
        "whyidle.cause": verdict.cause,
        "whyidle.headline": verdict.headline,
        "whyidle.busy": verdict.busy,
        "whyidle.gpu_hours" if on_gpu else "whyidle.hours": hours,
    }
    return attributes | {f"whyidle.waits.{name}": share for name, share in verdict.waits.items()}


def recorded_attributes(store: Path, seconds: float) -> Attributes:
    """The same for a trial whose process ended before it could diagnose itself, from what it has
    recorded in its run store; empty where it recorded nothing."""
    for recording in store.glob(f"runs/*/{RECORDING}"):
        with suppress(WhyidleError, OSError):
            return trial_attributes(diagnose_recording(recording), seconds)
    return {}
