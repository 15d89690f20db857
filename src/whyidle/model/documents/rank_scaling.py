"""The document of a job on other numbers of ranks, ``whyidle/scale/1``.

Seconds are per step, shares are of the step, 0 to 1. ``None`` means not known; ``why`` says why.
Every rank keeps its batch, so the work of a step grows with the ranks.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from whyidle.model.diagnosis import Document, Interval

SCHEMA: Final = "whyidle/scale/1"

Bottleneck = Literal["computation", "exchange", "late ranks", "host cores"]


class Link(Document, frozen=True, kw_only=True):
    """A link between ranks: an exchange takes ``messages * latency_s + bytes * 2(n-1)/n /
    bytes_per_s``, with as many messages one after the other as its algorithm sends. ``spread`` is
    the relative error of its time. ``source`` is how it is known, ``name`` that of a scenario."""

    latency_s: float
    bytes_per_s: float
    spread: float
    source: Literal["measured", "given", "assumed"]
    name: str = ""

    def with_speed(self, bytes_per_s: float) -> Link:
        """The same link with another bandwidth."""
        return msgspec.structs.replace(self, bytes_per_s=bytes_per_s)

    def bounds(self) -> tuple[Link, Link]:
        """The link at its fastest and at its slowest."""
        return self._slower(1.0 - min(self.spread, 0.9)), self._slower(1.0 + self.spread)

    def _slower(self, times: float) -> Link:
        latency, speed = self.latency_s * times, self.bytes_per_s / times
        return msgspec.structs.replace(self, latency_s=latency, bytes_per_s=speed)


class Needed(Document, frozen=True, kw_only=True):
    """What would bring the efficiency to ``target``: a link of ``bytes_per_s``, or ``batch_times``
    the batch of each rank. None where that alone is not enough."""

    target: float
    bytes_per_s: float | None
    batch_times: float | None
    cores: int | None = None  # of a host, where too few limit the step


class ScalePoint(Document, frozen=True, kw_only=True):
    """The job on ``ranks`` ranks. ``efficiency`` is the speed of each rank relative to one rank
    alone. ``exchange`` and ``late`` are the shares of the step in which gradients are exchanged
    and nothing else is done, and in which ranks wait for the slowest one. ``scenario`` is the link
    that is assumed where none is known. ``bound``: so far beyond what was measured that the step
    takes at least as long, and the efficiency is at most as high."""

    ranks: int
    nodes: int
    step_s: float | None
    interval: Interval | None
    efficiency: float | None
    exchange: float | None
    late: float | None
    bottleneck: Bottleneck | None
    needed: Needed | None
    measured_s: float | None = None
    why: str | None = None
    scenario: str = ""
    bound: bool = False


class RankScaling(Document, frozen=True, kw_only=True):
    """The whole document. ``steps`` measured steps of ``measured_ranks`` ranks. ``buckets`` are the
    bytes of the exchanges of one step. ``residual_s`` is what the measured step took beyond the
    model on as many ranks."""

    run: str
    command: list[str]
    measured_ranks: int
    per_node: int
    steps: int
    own_s: float
    own_spread_s: float
    correlation: float | None
    residual_s: float | None
    buckets: list[int]
    within: Link | None
    between: Link | None
    core_s: float | None
    cores: float | None
    points: list[ScalePoint]
    notes: list[str]
    schema: str = SCHEMA
