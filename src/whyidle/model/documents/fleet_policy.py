"""What may be done about jobs that waste GPUs: a policy, and the actions that follow from it."""

from __future__ import annotations

from typing import Literal

import msgspec

from whyidle.model.diagnosis import Document

IdleState = Literal["idle-held", "idle-reserved"]
Verb = Literal["warn", "cancel", "resize"]


class ActionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs in ``state`` for ``idle_s`` are warned about ``warnings`` times, at least ``every_s``
    apart, and then cancelled if ``action`` says so. A warning is forgotten when the job works
    again, and after ``expire_s``."""

    state: IdleState = "idle-held"
    idle_s: float = 7200.0
    action: Literal["hint", "cancel"] = "hint"
    warnings: int = 2
    every_s: float = 1800.0
    expire_s: float = 86_400.0


class Exemptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs that nothing is done about."""

    users: list[str] = []
    accounts: list[str] = []
    partitions: list[str] = []
    jobs: list[str] = []
    names: list[str] = []


class ActionPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy file. Without ``enforce`` nothing is ever done. ``most`` jobs may be acted on at
    once. ``notify`` is the program that tells an owner, with the warning as JSON on its standard
    input. ``resize`` reduces the GPUs of pending jobs whose earlier runs left some unused."""

    enforce: bool = False
    most: int = 5
    least_coverage: float = 0.9
    stale_s: float = 600.0
    notify: list[str] = []
    resize: bool = False
    rule: list[ActionRule] = []
    exempt: Exemptions = Exemptions()


class Action(Document, frozen=True, kw_only=True):
    """One action. ``command`` is what is executed; empty: the owner is only notified."""

    verb: Verb
    job: str
    user: str | None
    reason: str
    gpus: int
    command: list[str]


class LogEntry(Document, frozen=True, kw_only=True):
    """One line of the audit log: an action that was ``planned``, and how it ended."""

    time: str
    event: Literal["planned", "done", "failed", "skipped"]
    verb: Verb
    job: str
    user: str | None
    reason: str
    command: list[str]
    uid: int
    why: str | None = None


class ActionPlan(Document, frozen=True, kw_only=True):
    """What a policy would do now; nothing of it where ``refused`` gives reasons. ``waiting`` are
    jobs between two warnings, ``exempt`` those that are spared."""

    schema: Literal["whyidle/act/1"] = "whyidle/act/1"
    time: str
    refused: list[str]
    actions: list[Action]
    waiting: list[str]
    exempt: list[str]
