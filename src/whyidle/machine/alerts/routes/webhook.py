"""Posts notices to a URL, as Alertmanager's webhook does, or as a text that Slack understands.

Settings: ``url``; ``format`` is ``alertmanager`` (the default) or ``slack``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from whyidle.errors import UsageError
from whyidle.machine.alerts.prometheus_rules import alert_name
from whyidle.machine.alerts.routes._settings import check_url, post_json, take_settings
from whyidle.model.live.alert import Delivery, Notice, Route

FAULTS = (OSError,)
FORMATS = ("alertmanager", "slack")
_NEVER = "0001-01-01T00:00:00Z"
"""what Alertmanager writes for an alert that has not ended"""


class _Webhook:
    def __init__(self, url: str, form: str) -> None:
        self._url, self._form = url, form

    def publish(self, delivery: Delivery) -> None:
        """Post the notices."""
        if not delivery.notices:
            return
        make = {"slack": _slack_text, "alertmanager": _alertmanager_group}[self._form]
        post_json(self._url, json.dumps(make(delivery)).encode())

    def close(self, reason: object) -> None:
        """Nothing is open."""


def _slack_text(delivery: Delivery) -> dict[str, Any]:
    lines = [notice.text for notice in delivery.notices]
    lines += [f"and {delivery.held_back} more notices"] if delivery.held_back else []
    return {"text": "\n".join(lines)}


def _alertmanager_group(delivery: Delivery) -> dict[str, Any]:
    alerts = [encode_alert(notice) for notice in delivery.notices]
    firing = any(one["status"] == "firing" for one in alerts)
    return {
        "version": "4",
        "groupKey": "whyidle",
        "status": "firing" if firing else "resolved",
        "receiver": "whyidle",
        "truncatedAlerts": delivery.held_back,
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": alerts,
    }


def encode_alert(notice: Notice) -> dict[str, Any]:
    """One alert in Alertmanager's JSON."""
    over = notice.event == "resolves"
    annotations = {"summary": f"{notice.subject}: {notice.rule.summary}"}
    annotations |= {"cause": notice.cause} if notice.cause else {}
    annotations |= {"fix": notice.fix} if notice.fix else {}
    return {
        "status": "resolved" if over else "firing",
        "labels": alert_labels(notice),
        "annotations": annotations,
        "startsAt": _timestamp(notice.since),
        "endsAt": _timestamp(notice.when) if over else _NEVER,
        "generatorURL": "",
        "fingerprint": notice.key,
    }


def alert_labels(notice: Notice) -> dict[str, str]:
    """The labels of an alert, as the Prometheus rule file gives them."""
    labels = {"alertname": alert_name(notice.rule), "severity": notice.rule.severity}
    labels |= {"rule": notice.rule.id, **notice.labels}
    return labels | ({"cause": notice.rule.cause} if notice.rule.cause else {})


def _timestamp(when: float) -> str:
    return datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="milliseconds")


def open(settings: Mapping[str, Any]) -> Route:  # noqa: A001  # a route's verb
    """Post to ``url``."""
    given = take_settings("webhook", settings, url=None, format="alertmanager")
    if given["format"] not in FORMATS:
        raise UsageError(f"format is {given['format']!r}, not one of {', '.join(FORMATS)}.")
    return _Webhook(check_url("webhook", given["url"]), given["format"])
