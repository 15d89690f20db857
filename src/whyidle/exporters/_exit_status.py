"""How a command ended that did not end well: said before anything else, for a job that fails has
another trouble than idle time."""

from __future__ import annotations

import signal

from whyidle.model.diagnosis import Diagnosis

STOPPED = ("SIGINT", "SIGTERM")
"""by these somebody ends a job that goes well"""
_SIGNALS = 128
"""what a shell adds to a signal's number"""


def describe_exit(diagnosis: Diagnosis) -> tuple[str, str]:
    """A word for it, and a sentence without a full stop; both empty where the command ended well,
    has not ended, or the headline is about nothing else."""
    status = diagnosis.run.exit_status
    if not status or diagnosis.command_failed:
        return "", ""
    name = _signal_name(status)
    before = "what follows is of the time before"
    if name in STOPPED:
        return "stopped", f"The command was ended by {name} (status {status}); {before}"
    by = f", killed by {name}" if name else ""
    return "failed", f"The command failed with status {status}{by}; {before}"


def _signal_name(status: int) -> str:
    try:
        return signal.Signals(status - _SIGNALS).name
    except ValueError:
        return ""
