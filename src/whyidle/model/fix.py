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
    """What to change. ``summary`` says it in a line; where it is empty, the edits are worded for
    the job's framework. ``predicted`` is None where the fix expects all that the cause predicts.
    With ``faster`` False nothing is predicted: it gives more information, and makes nothing
    faster."""

    summary: str = ""
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
    title: str
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
            title=" ".join((decide.__globals__["__doc__"] or "").split("\n\n")[0].split()),
            doc=decide.__doc__ or "",
        )

    return declare


def advice(
    name: str,
    *causes: str,
    title: str,
    doc: str,
    summary: str | Callable[[Proof], str | None],
    consent: Consent = "none",
    risk: str = "",
    predicted: Callable[[Proof], Predicted | None] = lambda _: None,
    faster: bool = True,
) -> Fix:
    """A fix that only people can apply: a row of a table in ``fixes/advice``.

    Args:
        name: its id.
        causes: ids of the causes that it removes.
        title: what it does, in a line.
        doc: when it is proposed, and why only people can apply it.
        summary: what to do, or a function of the proof, which declines by ``None``.
        consent: what it may change in the numbers.
        risk: what may go wrong.
        predicted: what it gains, where that is not all that the cause predicts.
        faster: whether it makes the job faster.
    """

    def decide(proof: Proof) -> Proposal | None:
        text = summary if isinstance(summary, str) else summary(proof)
        if text is None:
            return None
        gain = predicted(proof)
        return Proposal(text, predicted=gain, risk=risk, automatic=False, faster=faster)

    return Fix(id=name, causes=causes, consent=consent, decide=decide, title=title, doc=doc)
