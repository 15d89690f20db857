"""Processes of a login, a service, or a cron job: everything that no scheduler started."""

from __future__ import annotations

import re

from whyidle.model.documents.watch_document import Tenant
from whyidle.model.live.tenancy import ProcessIdentity

RANK = 99
_UNIT = re.compile(r"/([^/\n]+\.service)(?:\n|$)")


def identify(process: ProcessIdentity) -> Tenant:
    """A tenant without an id; the label ``unit`` is the systemd service, if one started it."""
    unit = _UNIT.search(process.cgroup)
    return Tenant(kind="plain", job=None, labels={"unit": unit[1]} if unit else {})
