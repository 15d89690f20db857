"""The document of ``whyidle doctor``, ``whyidle/doctor/1``."""

from __future__ import annotations

from typing import Final, Literal

from whyidle.model.diagnosis import Document

SCHEMA: Final = "whyidle/doctor/1"

Topic = Literal["software", "gpu", "host", "storage"]
State = Literal["ok", "gap", "note", "absent"]
"""ok: works · gap: not measurable or harmful, see ``close`` · note: worth knowing · absent: not
present and not needed"""


class Check(Document, frozen=True, kw_only=True):
    """One check. ``close`` is how to close a gap."""

    topic: Topic
    name: str
    state: State
    found: str
    means: str = ""
    close: str = ""


class Machine(Document, frozen=True, kw_only=True):
    """The whole document."""

    schema: Literal["whyidle/doctor/1"] = SCHEMA
    checks: list[Check]
