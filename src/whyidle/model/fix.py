"""The declaration of a fix.

A fix is a pure function from a finding's ``Proof`` to a ``Proposal``, or to ``None`` if it does not
apply. It names knobs, never a framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, get_args

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Consent, Edit, Predicted
from whyidle.model.recording import Kind

ANY_KIND: Final[frozenset[Kind]] = frozenset(get_args(Kind)) - {"graph_capture", "microbenchmark"}
"""what is captured into a graph runs later, and a microbenchmark is no job: nothing is to be fixed
in their recordings"""
CONSENTS: Final[dict[Consent, str]] = {
    "none": "same numbers",
    "rounding": "rounding or random order may differ",
    "numerics": "lowers numeric precision",
    "convergence": "may change learning",
}
TRAINING: Final[frozenset[Kind]] = frozenset({"training", "warm_up"})
"""for what only training has: gradients, their exchange, an optimizer, checkpoints"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The changes that a fix proposes.

    ``{edits}`` in the summary stands for the edits in the words of the job's framework.
    """

    summary: str = ""  # one line; if empty, the edits are worded for the job's framework
    edits: tuple[Edit, ...] = ()
    predicted: Predicted | None = None  # None: the gain that the cause predicts
    risk: str = ""
    automatic: bool = True
    faster: bool = True  # False: it only yields information, so nothing is predicted
    spreads: bool = False  # whether more processes do the same work: removing it precedes that


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
    kinds: frozenset[Kind] = ANY_KIND
    """the kinds of recordings for which it is meant"""


def fix(
    *causes: str, consent: Consent, kinds: frozenset[Kind] = ANY_KIND
) -> Callable[[Decide], Fix]:
    """Declare a fix for some causes (by id) in some kinds of recordings. Its id is the name of its
    file."""

    def declare(decide: Decide) -> Fix:
        stem = decide.__module__.rsplit(".", 1)[-1]
        return Fix(
            id=stem.replace("_", "-"),
            causes=causes,
            consent=consent,
            decide=decide,
            title=" ".join((decide.__globals__["__doc__"] or "").split("\n\n")[0].split()),
            doc=decide.__doc__ or "",
            kinds=kinds,
        )

    return declare


def advice(  # noqa: PLR0913  # a row of a table has this many columns
    name: str,
    *causes: str,
    title: str,
    doc: str,
    summary: str | Callable[[Proof], str | Proposal | None],
    consent: Consent = "none",
    risk: str = "",
    predicted: Callable[[Proof], Predicted | None] = lambda _: None,
    faster: bool = True,
    edits: tuple[Edit, ...] = (),
    kinds: frozenset[Kind] = ANY_KIND,
) -> Fix:
    """Declare an advice, a fix that only people can apply: a row of a table in ``fixes/advice``.

    Args:
        name: its id.
        causes: ids of the causes that it removes.
        title: what it does, in a line.
        doc: when it is proposed, and why only people can apply it.
        summary: what to do, or a function of the proof that returns ``None`` to decline, or a
            proposal where its edits, gain or risk depend on the proof too.
        consent: the class of what it may change.
        risk: what may go wrong.
        predicted: its gain, if not the one that the cause predicts.
        faster: whether it makes the job faster.
        edits: what people would set, as far as knobs express it.
        kinds: the kinds of recordings for which it is meant.
    """

    def decide(proof: Proof) -> Proposal | None:
        text = summary if isinstance(summary, str) else summary(proof)
        if text is None:
            return None
        if isinstance(text, Proposal):
            return replace(text, risk=text.risk or risk, automatic=False)
        gain = predicted(proof)
        return Proposal(text, edits, gain, risk, automatic=False, faster=faster)

    return Fix(name, causes, consent, decide, title, doc, kinds)
