"""Everything else: the services that the package apprise knows, by its URLs.

Needs the extra ``apprise``. Settings: ``urls``, a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyidle.errors import MissingExtraError, UsageError
from whyidle.machine.alerts.routes._settings import take_settings
from whyidle.model.live.alert import Delivery, Route

FAULTS = (OSError,)


class _Apprise:
    def __init__(self, service: Any) -> None:
        self._service = service

    def publish(self, delivery: Delivery) -> None:
        """Notify; raises ConnectionError if a service refuses."""
        if not delivery.notices:
            return
        if not self._service.notify(title="whyidle", body=delivery.text):
            raise ConnectionError("a service did not accept the notice")

    def close(self, reason: object) -> None:
        """Nothing is open."""


def open(settings: Mapping[str, Any]) -> Route:  # noqa: A001  # a route's verb
    """Notify the services of ``urls``."""
    try:
        import apprise  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            "The package apprise is not installed.", hint="pip install 'whyidle[apprise]'"
        ) from error
    service = apprise.Apprise()
    for url in take_settings("apprise", settings, urls=None)["urls"]:
        if not service.add(url):
            raise UsageError("apprise does not understand one of its URLs.")
    return _Apprise(service)
