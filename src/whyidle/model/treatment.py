"""How a fix declares itself: which causes it treats, what it edits, and what that may change.

A treatment is a pure function from a finding's ``Proof`` to a ``Plan``, or ``None`` where it must
decline. It names knobs, never a framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Consent, Edit, Predicted


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change. ``summary`` says it in a line; where it is empty, the edits are told in the
    words of the job's framework. ``predicted`` is None where the treatment expects all that the
    cause predicts. With ``faster`` False nothing is predicted: it tells more, and makes nothing
    faster."""

    summary: str = ""
    edits: tuple[Edit, ...] = ()
    predicted: Predicted | None = None
    risk: str = ""
    automatic: bool = True
    faster: bool = True


Decide = Callable[[Proof], "Plan | None"]


@dataclass(frozen=True, slots=True)
class Treatment:
    """A registered fix."""

    id: str
    treats: tuple[str, ...]
    consent: Consent
    decide: Decide
    doc: str


def treatment(*treats: str, consent: Consent) -> Callable[[Decide], Treatment]:
    """Declare a fix for some causes (by id). Its own id is its file's name."""

    def declare(decide: Decide) -> Treatment:
        stem = decide.__module__.rsplit(".", 1)[-1]
        return Treatment(
            id=stem.replace("_", "-"),
            treats=treats,
            consent=consent,
            decide=decide,
            doc=decide.__doc__ or "",
        )

    return declare
