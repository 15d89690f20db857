"""Prints a line for each notice on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from whyidle.alerts.routes._settings import take_settings
from whyidle.model.alert import Delivery, Route

FAULTS = (OSError,)


class _Lines:
    def publish(self, delivery: Delivery) -> None:
        """Print the notices."""
        for notice in delivery.notices:
            print(notice.text)
        if delivery.held_back:
            print(f"and {delivery.held_back} more notices were held back")
        sys.stdout.flush()

    def close(self, reason: object) -> None:
        """Nothing is open."""


def open(settings: Mapping[str, Any]) -> Route:  # noqa: A001  # a route's verb
    """Print; there are no settings."""
    take_settings("stdout", settings)
    return _Lines()
