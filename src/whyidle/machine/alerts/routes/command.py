"""Starts a program for each delivery, with the notices as JSON on its standard input. No shell is
involved, so nothing in a job's name can become a command.

Settings: ``argv``, a list of words; ``timeout_s`` (30).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from whyidle.errors import UsageError
from whyidle.machine.alerts.routes._settings import take_settings
from whyidle.machine.alerts.routes.webhook import encode_alert
from whyidle.model.live.alert import Delivery, Route

FAULTS = (OSError, subprocess.SubprocessError)


class _Command:
    def __init__(self, argv: list[str], timeout_s: float) -> None:
        self._argv, self._timeout_s = argv, timeout_s

    def publish(self, delivery: Delivery) -> None:
        """Run the program, if there is a notice."""
        if not delivery.notices:
            return
        body = [{"text": one.text, **encode_alert(one)} for one in delivery.notices]
        subprocess.run(
            self._argv,
            input=json.dumps({"alerts": body, "held_back": delivery.held_back}).encode(),
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
