"""The declaration of a root cause.

A cause is a pure function from facts to a ``Proof`` or ``None``. Its ``@cause`` line and its
docstring hold all that the rest of the program needs to know about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Any, Literal, TypeVar

from whyidle.model.buckets import BUCKETS, Bucket
from whyidle.model.diagnosis import Evidence, Place, Predicted
from whyidle.model.proof_facts import ProofFacts
from whyidle.model.signals import SIGNALS

SECTIONS = (
    "What it means",
    "Why it costs",
    "How it is detected",
    "What looks alike",
    "What to do",
    "References",
)
"""headings of every cause's docstring, in this order"""
LEAST_SHARE = 0.01
"""share of the step below which most causes are not reported"""
HARMLESS = 0.005
"""the same of causes that cost little each time, and are certain"""
WORTH = 0.03
"""share of the step that a finding must save to be more than ``info``"""
LEFT_AT_WORST = 0.5
"""share that stays at least of work that moves beside the step: it competes for the interpreter,
copies, or is examined again"""
BLOCKING = 0.9
"""share of launches that wait for their kernel from which waiting is the cause, not launching;
normal is 0 to 1 %"""
MOST_LOCATED = 400
"""waits or pauses whose places are looked up"""
MOST_PLACES = 3
"""places in the user's source that a finding names"""
NOTICEABLE = 0.03
"""the same where stack samples or single operators show the time: ordinary Python between calls,
partly the framework's own, took 1.7 to 3.2 % of a healthy job"""
MOSTLY = 0.5
"""share from which a part decides what the whole is called, or what it waits for"""
NOTHING = ProofFacts()
F = TypeVar("F", bound=ProofFacts)


@dataclass(frozen=True, slots=True)
class Proof:
    """A proven cause. ``low`` and ``high`` are the share of the step that it costs (0-1), by
    default what ``predicted`` saves: the gain of its usual remedy. ``removal`` is that of its
    complete absence, if the remedy leaves a part of it."""

    headline: str
    predicted: Predicted
    evidence: tuple[Evidence, ...]
    confidence: float = 0.8
    where: tuple[Place, ...] = ()
    facts: ProofFacts = NOTHING  # facts for fixes, in the class of the cause's family
    bucket: Bucket | None = None  # bucket of its time in this run, if not the cause's own
    removal: Predicted | None = None
    once: float = 0.0  # share of the whole run that it costs once, before the steps of the shares
    low: float = float("nan")
    high: float = float("nan")

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if isnan(getattr(self, name)):
                saved = 1.0 - 1.0 / float(getattr(self.predicted, name))
                object.__setattr__(self, name, saved)

    def get_facts(self, kind: type[F]) -> F:
        """The facts if they have this class, else its defaults."""
        return self.facts if isinstance(self.facts, kind) else kind()


Test = Callable[[Any], "Proof | None"]
Scope = Literal["rank", "job"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A registered root cause. ``test`` takes the ``analysis.facts.Facts`` of a rank if ``scope``
    is "rank", and the ``analysis.job.Job`` if it is "job"."""

    id: str
    title: str
    bucket: Bucket
    family: str
    needs: tuple[str, ...]
    min_steps: int
    scope: Scope
    test: Test
    doc: str
    watched: tuple[str, ...] = ()  # signals of a watched process that replace ``needs``
    direct: bool = False  # whether few steps suffice, as for a mode that is on
    frameworks: tuple[str, ...] = ()  # in whose jobs it can occur; empty: in any
    common: bool = False
    """whether only the part that all synchronised ranks share counts: the excess of one rank makes
    it late, which has its own causes, or is hidden while it waits"""

    def applies_to(self, framework: str | None) -> bool:
        """Whether it can occur in a job of this framework (None: not known)."""
        return not self.frameworks or framework is None or framework in self.frameworks

    def missing_signals(self, signals: frozenset[str]) -> list[str]:
        """The signals without which the cause cannot be judged."""
        if self.watched and all(need in signals for need in self.watched):
            return []
        return [need for need in self.needs if need not in signals]


def cause(
    title: str,
    *,
    bucket: Bucket,
    needs: tuple[str, ...],
    min_steps: int = 1,
    scope: Scope = "rank",
    watched: tuple[str, ...] = (),
    direct: bool = False,
    frameworks: tuple[str, ...] = (),
    common: bool = False,
) -> Callable[[Test], Cause]:
    """Declare a root cause. Its id and family are the names of its file and folder.

    Raises:
        ValueError: the bucket or a needed signal is not in the vocabulary.
    """
    if bucket not in BUCKETS:
        raise ValueError(f"unknown bucket {bucket!r}; one of {', '.join(BUCKETS)}")
    if unknown := [need for need in (*needs, *watched) if need not in SIGNALS]:
        raise ValueError(f"unknown signals {unknown}; one of {', '.join(SIGNALS)}")

    def declare(test: Test) -> Cause:
        *_, family, stem = test.__module__.split(".")
        return Cause(
            id=stem.replace("_", "-"),
            title=title,
            bucket=bucket,
            family=family,
            needs=needs,
            min_steps=min_steps,
            scope=scope,
            test=test,
            doc=test.__doc__ or "",
            watched=watched,
            direct=direct,
            frameworks=frameworks,
            common=common,
        )

    return declare
