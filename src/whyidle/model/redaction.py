"""Removes secrets from command lines, before anything is stored, sent or shown."""

from __future__ import annotations

from collections.abc import Iterable

from whyidle.probe.redaction import redact_command, redact_text

__all__ = ["hide_secrets", "redact_command", "redact_text"]


def hide_secrets(command: Iterable[str]) -> str:
    """A command line in one line, without secrets."""
    return " ".join(redact_command(command))
