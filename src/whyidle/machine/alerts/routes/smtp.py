"""Sends one mail for each delivery.

Settings: ``host``, ``to`` (a list), ``sender``; ``port`` (25), ``starttls`` (false), ``user`` and
``password``, which should be ``$NAME`` of an environment variable.
"""

from __future__ import annotations

import smtplib
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any

from whyidle.machine.alerts.routes._settings import PATIENCE_S, take_settings
from whyidle.model.live.alert import Delivery, Route

FAULTS = (OSError, smtplib.SMTPException)


class _Mail:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def publish(self, delivery: Delivery) -> None:
        """Send the notices as one mail."""
        if not delivery.notices:
            return
        message, settings = EmailMessage(), self._settings
        first = delivery.notices[0]
        more = f" and {len(delivery.notices) - 1} more" if len(delivery.notices) > 1 else ""
        message["Subject"] = f"[whyidle] {first.rule.id} {first.subject}{more}"
        message["From"], message["To"] = settings["sender"], ", ".join(settings["to"])
        lines = [notice.text for notice in delivery.notices]
        lines += [f"and {delivery.held_back} more notices"] if delivery.held_back else []
        message.set_content("\n".join(lines))
        with smtplib.SMTP(settings["host"], settings["port"], timeout=PATIENCE_S) as server:
            if settings["starttls"]:
                server.starttls()
            if settings["user"]:
                server.login(settings["user"], settings["password"])
            server.send_message(message)

    def close(self, reason: object) -> None:
        """Nothing is open between mails."""


def open(settings: Mapping[str, Any]) -> Route:  # noqa: A001  # a route's verb
    """Send to ``to`` through ``host``."""
    given = take_settings(
        "smtp", settings, host=None, to=None, sender=None, port=25, starttls=False, user="",
        password="",
    )  # fmt: skip
    given["to"] = [given["to"]] if isinstance(given["to"], str) else list(given["to"])
    return _Mail(given)
