"""How a root cause declares itself, and what it returns.

A cause is a pure function from facts to a ``Proof`` or ``None``. Everything the rest of the
program must know about it stands in its ``@cause`` line and its docstring, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
"""The headings that every cause's docstring has, in this order."""


NOTHING = ProofFacts()
F = TypeVar("F", bound=ProofFacts)


@dataclass(frozen=True, slots=True)
class Proof:
    """A cause found. ``low`` and ``high`` are the share of the step it costs (0-1), ``predicted``
    what removing it is worth; there is no finding without a prediction."""

    headline: str
    low: float
    high: float
    predicted: Predicted
    evidence: tuple[Evidence, ...]
    confidence: float = 0.8
    where: tuple[Place, ...] = ()
    facts: ProofFacts = NOTHING
    """what a fix may need, in the class of the cause's family"""
    bucket: Bucket | None = None
    """where its time lies in this run, if not in the cause's own bucket: on a job whose device is
    the CPU, what the host does in a call is the work itself"""

    def get_facts(self, kind: type[F]) -> F:
        """The facts, where they are of this class; else its defaults."""
        return self.facts if isinstance(self.facts, kind) else kind()


Test = Callable[[Any], "Proof | None"]
Scope = Literal["rank", "job"]


@dataclass(frozen=True, slots=True)
class Cause:
    """A registered root cause. ``test`` takes one rank's ``analysis.facts.Facts`` where ``scope``
    is "rank", and the whole ``analysis.job.Job`` where it is "job"."""

    id: str
    title: str
    bucket: Bucket
    family: str
    needs: tuple[str, ...]
    min_steps: int
    scope: Scope
    test: Test
    doc: str
    watched: tuple[str, ...] = ()
    """signals that do instead of ``needs``, of a process that was watched"""
    direct: bool = False
    """whether few steps show it as well as many: a mode that is on, a life before the first step"""
    common: bool = False
    """whether of ranks that meet in every step only what all have counts: what one has beyond the
    others makes it late, which has causes of its own, or costs nothing, as it waits for them"""

    def missing_signals(self, signals: frozenset[str]) -> list[str]:
        """What is missing before it can be judged."""
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
    common: bool = False,
) -> Callable[[Test], Cause]:
    """Declare a root cause. Its id and family are its file's and folder's name.

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
            common=common,
        )

    return declare
