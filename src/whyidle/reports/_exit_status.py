"""Describes how a command failed; reports show this first."""

from __future__ import annotations

import signal

from whyidle.model.diagnosis import Diagnosis

STOPPED = ("SIGINT", "SIGTERM")
"""signals that users send to a job that works"""


def describe_exit(diagnosis: Diagnosis) -> tuple[str, str]:
    """A word and a sentence without full stop; both empty if the command succeeded, still runs, or
    the headline says the same."""
    status = diagnosis.run.exit_status
    if not status or diagnosis.command_failed:
        return "", ""
    name = _signal_name(status)
    before = "the report covers the time before that"
    if name in STOPPED:
        return "stopped", f"{name} ended the command (status {status}); {before}"
    by = f", killed by {name}" if name else ""
    if diagnosis.memory is not None and diagnosis.memory.death is not None:
        by = ", out of memory"
    return "failed", f"The command failed with status {status}{by}; {before}"


def _signal_name(status: int) -> str:
    try:
        return signal.Signals(status - 128).name  # the offset that a shell adds
    except ValueError:
        return ""
