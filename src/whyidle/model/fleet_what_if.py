"""The document of a ledger that is replayed under other policies, ``whyidle/what-if/1``.

A policy is an order of the queue, a choice of the node, how devices are divided, and whether a job
of several GPUs waits until it gets all of them at once (gang). ``None`` means not known.
"""

from __future__ import annotations

from typing import Final, Literal

from whyidle.model.diagnosis import Document

SCHEMA: Final = "whyidle/what-if/1"
Order = Literal["fifo", "backfill"]
Placement = Literal["first-fit", "best-fit", "spread"]
Division = Literal["whole", "share", "mig"]


class Policy(Document, frozen=True, kw_only=True):
    """One policy. ``whole``: every job gets whole devices; ``share``: the share that it declares;
    ``mig``: the smallest MIG slice that holds this share."""

    order: Order = "fifo"
    placement: Placement = "first-fit"
    division: Division = "whole"
    gang: bool = True

    @property
    def name(self) -> str:
        """The words that select it."""
        words = [self.order, self.placement, self.division, "" if self.gang else "no-gang"]
        return "+".join(word for word in words if word)


class Pile(Document, frozen=True, kw_only=True):
    """All jobs at once, in order of arrival: how many GPUs that takes. ``devices`` are in use,
    ``stranded`` is the sum of their unused shares; ``left`` jobs did not fit, which ask for
    ``left_gpus``."""

    placed: int
    left: int
    devices: int
    stranded: float
    left_gpus: float


class Queue(Document, frozen=True, kw_only=True):
    """The jobs in time. Waits are s; ``waited_gpu_hours`` are the GPUs asked for times the wait;
    ``allocated`` is the share of all GPU time that was allocated until the last job ended;
    ``blocked`` the share of time in which the first job waited although as many GPUs as it asks
    for were free, but not where it can use them."""

    jobs: int
    mean_wait_s: float
    p95_wait_s: float
    waited_gpu_hours: float
    end_s: float
    allocated: float
    blocked: float


class PolicyResult(Document, frozen=True, kw_only=True):
    """What a policy does. ``queue`` is None where waits cannot be predicted. ``slowdown`` is the
    least and most factor by which jobs that share a device take longer; None: not known, and none
    is assumed."""

    policy: Policy
    name: str
    pile: Pile
    queue: Queue | None
    slowdown: tuple[float, float] | None


class Reproduction(Document, frozen=True, kw_only=True):
    """Whether the simulator makes the waits that happened: the policy that does so best, the mean
    waits, and the relative error. ``why`` says why waits are not predicted; None: they are."""

    policy: str | None
    recorded_wait_s: float | None
    simulated_wait_s: float | None
    error: float | None
    why: str | None


class WhatIfReport(Document, frozen=True, kw_only=True):
    """The whole document. ``asked_devices`` is what all jobs ask for as whole GPUs,
    ``asked_shares`` as the shares that they declare."""

    schema: Literal["whyidle/what-if/1"] = SCHEMA
    whyidle: str
    ledgers: list[str]
    jobs: int
    gpus: int
    nodes: int
    asked_devices: int
    asked_shares: float
    reproduction: Reproduction
    results: list[PolicyResult]
    counts: dict[str, int]
    notes: list[str]
