"""Checks the settings of a route."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from whyidle.errors import UsageError


def take_settings(kind: str, given: Mapping[str, Any], **known: Any) -> dict[str, Any]:
    """The settings of a route with defaults; a default of None makes a setting required. A value
    ``$NAME`` is read from the environment, so that files hold no secrets.

    Raises:
        UsageError: one is unknown, missing, or of another type.
    """
    settings = {name: value for name, value in given.items() if name != "kind"}

    def complain(text: str) -> UsageError:
        return UsageError(f"The {kind} route {text}.", why=f"Settings: {', '.join(known)}.")

    for name in settings:
        if name not in known:
            raise complain(f"has no setting {name!r}")
    merged = {**known, **settings}
    for name, value in merged.items():
        if value is None:
            raise complain(f"needs the setting {name!r}")
        if isinstance(value, str) and value.startswith("$"):
            if value[1:] not in os.environ:
                raise complain(f"needs the environment variable {value[1:]}")
            merged[name] = os.environ[value[1:]]
    return merged
