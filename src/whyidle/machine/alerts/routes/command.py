"""Starts a program for each delivery, with JSON on its standard input: ``text``, for people, and
``alerts``, a list of documents ``whyidle/alert/1``. No shell is involved, so nothing in a job's
name can become a command.

Settings: ``argv``, a list of words; ``timeout_s`` (30).
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import msgspec

from whyidle.errors import UsageError
from whyidle.machine.alerts.routes._settings import take_settings
from whyidle.model.live.alert import AlertLine, Delivery, Route

FAULTS = (OSError, subprocess.SubprocessError)


class _Command:
    def __init__(self, argv: list[str], timeout_s: float) -> None:
        self._argv, self._timeout_s = argv, timeout_s

    def publish(self, delivery: Delivery) -> None:
        """Run the program, if there is a notice."""
        if not delivery.notices:
            return
        alerts = [AlertLine.from_notice(one) for one in delivery.notices]
        subprocess.run(
            self._argv,
            input=msgspec.json.encode({"text": delivery.text, "alerts": alerts}),
            timeout=self._timeout_s,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self, reason: object) -> None:
        """Nothing runs between deliveries."""


def open(settings: Mapping[str, Any]) -> Route:  # noqa: A001  # a route's verb
    """Run ``argv``."""
    given = take_settings("command", settings, argv=None, timeout_s=30.0)
    argv = given["argv"]
    if not isinstance(argv, list) or not argv or not all(isinstance(one, str) for one in argv):
        raise UsageError("The command route needs argv, a list of words.", why=f"Got {argv!r}.")
    return _Command(argv, float(given["timeout_s"]))
