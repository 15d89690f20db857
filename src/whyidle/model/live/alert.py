"""Alerts: the declaration of a rule, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final, Literal, Protocol

import msgspec

from whyidle.model.diagnosis import Document

SCHEMA: Final = "whyidle/alert/1"
Scope = Literal["gpu", "run"]
Reduction = Literal["mean", "least", "most", "growth", "rise"]
"""of the samples in the window. growth: highest minus lowest · rise: lowest of the last quarter,
over the highest of the first"""
Severity = Literal["info", "warning", "critical"]
Event = Literal["fires", "repeats", "resolves"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: ``reduce`` of ``signal`` over ``window_s`` is ``above`` or ``below`` a number, for
    ``for_s``. A series is judged once it has ``coverage`` of the window's samples: what was not
    measured is unknown, never zero. ``guard`` is a signal that must be above zero in the whole
    window, such as that a run trains."""

    id: str
    summary: str
    of: Scope
    signal: str
    labels: dict[str, str] = {}
    reduce: Reduction = "least"
    above: float | None = None
    below: float | None = None
    window_s: float
    for_s: float = 0.0
    coverage: float = 0.8
    guard: str | None = None
    severity: Severity = "warning"
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message about an alert. ``key`` is its identity: rule, host, and run or GPU."""

    key: str
    rule: Rule
    event: Event
    labels: Mapping[str, str]
    value: float | None
    since: float  # Unix time at which it began to fire
    when: float  # Unix time of this notice
    cause: str = ""  # why, as far as it is known
    fix: str = ""  # the first fix, if one is known

    @property
    def subject(self) -> str:
        """What it is about: a run, or a GPU of a host."""
        labels = self.labels
        thing = labels.get("run") or f"GPU {labels.get('gpu', '?')}"
        part = f".{labels['GPU_I_ID']}" if "GPU_I_ID" in labels else ""
        return f"{thing}{part} on {labels.get('hostname', '?')}"

    @property
    def text(self) -> str:
        """One line for people."""
        word = {"fires": "FIRING", "repeats": "STILL FIRING", "resolves": "RESOLVED"}[self.event]
        why = f": {self.cause}" if self.cause else ""
        fix = f" (try: {self.fix})" if self.fix and self.event != "resolves" else ""
        return f"[{word}] {self.rule.id} {self.subject}: {self.rule.summary}{why}{fix}"


class AlertLine(Document, frozen=True, kw_only=True):
    """One notice as a document. ``key`` names the alert: the same when it repeats and resolves.
    ``labels`` are those of the metric; ``cause`` and ``fix`` are null where none is known."""

    schema: Literal["whyidle/alert/1"] = SCHEMA
    time: str
    key: str
    rule: str
    event: Event
    severity: Severity
    subject: str
    summary: str
    since: str
    value: float | None
    cause: str | None
    fix: str | None
    labels: dict[str, str]

    @classmethod
    def from_notice(cls, notice: Notice) -> AlertLine:
        """The document of a notice."""
        when, since = (
            datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")
            for moment in (notice.when, notice.since)
        )
        return cls(
            time=when, key=notice.key, rule=notice.rule.id, event=notice.event,
            severity=notice.rule.severity, subject=notice.subject, summary=notice.rule.summary,
            since=since, value=notice.value, cause=notice.cause or None, fix=notice.fix or None,
            labels=dict(notice.labels),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What goes out at once. ``held_back`` is how many notices were left out by the limit."""

    notices: Sequence[Notice]
    held_back: int = 0

    @property
    def text(self) -> str:
        """A line for each notice, for people."""
        lines = [notice.text for notice in self.notices]
        lines += [f"and {self.held_back} more notices were held back"] if self.held_back else []
        return "\n".join(lines)


class Route(Protocol):
    """An open route to people or to another program."""

    def publish(self, delivery: Delivery) -> None:
        """Deliver; raises one of the module's ``FAULTS`` if that fails."""

    def close(self, reason: object) -> None:
        """Release everything."""
