"""Posts to Alertmanager's API (v2). Grouping, silences and mute times are Alertmanager's work, so
it gets everything that fires, again and again, and the end of what resolves.

Settings: ``url``, such as ``http://alertmanager:9093``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from whyidle.machine.alerts.routes._settings import check_url, post_json, take_settings
from whyidle.machine.alerts.routes.webhook import encode_alert
from whyidle.model.live.alert import Delivery, Notice, Route

FAULTS = (OSError,)
EVERY_S: Final = 60.0
LASTS: Final = timedelta(minutes=5)
"""an alert that is not posted again resolves by itself: whyidle may have ended"""
RAW = True


class _Alertmanager:
    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/").removesuffix("/api/v2/alerts") + "/api/v2/alerts"
        self._firing: dict[str, Notice] = {}
        self._posted_s = 0.0

    def publish(self, delivery: Delivery) -> None:
        """Post what fires if it is new or a minute has passed, and what has ended."""
        now = {one.key: one for one in delivery.firing}
        ended = [one for key, one in self._firing.items() if key not in now]
        is_new = now.keys() - self._firing.keys()
        if not (ended or is_new or (now and time.monotonic() - self._posted_s >= EVERY_S)):
            return
        moment = datetime.now(timezone.utc)
        body = [_encode(one, moment + LASTS) for one in now.values()]
        body += [_encode(one, moment) for one in ended]
        post_json(self._url, json.dumps(body).encode())
        self._firing, self._posted_s = now, time.monotonic()

    def close(self, reason: object) -> None:
        """What still fires resolves by itself."""


def _encode(notice: Notice, ends: datetime) -> dict[str, Any]:
    alert = encode_alert(notice)
    kept = {name: alert[name] for name in ("labels", "annotations", "startsAt")}
    return {**kept, "endsAt": ends.isoformat(timespec="milliseconds")}


def open(settings: Mapping[str, Any]) -> Route:  # noqa: A001  # a route's verb
    """Post to the Alertmanager at ``url``."""
    given = take_settings("alertmanager", settings, url=None)
    return _Alertmanager(check_url("alertmanager", given["url"]))
