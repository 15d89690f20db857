"""How a fix declares itself: which causes it removes, what it edits, and what that may change.

A fix is a pure function from a finding's ``Proof`` to a ``Proposal``, or ``None`` where it must
decline. It names knobs, never a framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Consent, Edit, Predicted


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to change. ``summary`` says it in the words of the framework's API; ``predicted`` is
    None where the fix expects all that the cause predicts. With ``faster`` False nothing is
    predicted: it tells more, and makes nothing faster."""

    summary: str
    edits: tuple[Edit, ...] = ()
    predicted: Predicted | None = None
    risk: str = ""
    automatic: bool = True
    faster: bool = True


Decide = Callable[[Proof], "Proposal | None"]


@dataclass(frozen=True, slots=True)
class Fix:
    """A registered fix."""

    id: str
    causes: tuple[str, ...]
    consent: Consent
    decide: Decide
    doc: str


def fix(*causes: str, consent: Consent) -> Callable[[Decide], Fix]:
    """Declare a fix for some causes (by id). Its own id is its file's name."""

    def declare(decide: Decide) -> Fix:
        stem = decide.__module__.rsplit(".", 1)[-1]
        return Fix(
            id=stem.replace("_", "-"),
            causes=causes,
            consent=consent,
            decide=decide,
            doc=decide.__doc__ or "",
        )

    return declare
