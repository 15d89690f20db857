"""Prints a line for each notice on standard output.

Settings: ``format`` is ``text`` (the default) or ``json``, a document ``whyidle/alert/1`` a line.
`whyidle watch --json` to standard output writes JSON in either case, so that each line is a
document, with its type in ``schema``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from whyidle.errors import UsageError
from whyidle.machine.alerts.routes._settings import take_settings
from whyidle.model.live.alert import AlertLine, Delivery, Route

FAULTS = (OSError,)
FORMATS = ("text", "json")


class _Lines:
    def __init__(self, form: str) -> None:
        self._form = form

    def publish(self, delivery: Delivery) -> None:
        """Print the notices, in one write: looks are printed by another thread."""
        text = delivery.text
        if self._form == "json":
            lines = (msgspec.json.encode(AlertLine.from_notice(one)) for one in delivery.notices)
            text = b"\n".join(lines).decode()
        sys.stdout.write(f"{text}\n" if text else "")
        sys.stdout.flush()

    def close(self, reason: object) -> None:
        """Nothing is open."""


def open(settings: Mapping[str, Any]) -> Route:  # noqa: A001  # a route's verb
    """Print."""
    given = take_settings("stdout", settings, format="text")
    if given["format"] not in FORMATS:
        raise UsageError(f"format is {given['format']!r}, not one of {', '.join(FORMATS)}.")
    return _Lines(given["format"])
