"""The step of a data-parallel job on other numbers of ranks.

All ranks begin a step when its last exchange has ended. A bucket of gradients is exchanged when it
is ready on all ranks and the link is free; the step ends with the last exchange, or with the
slowest rank's own work. Steps of n ranks are drawn from the measured ones, so that the slowest of n
is as late as n draws let one expect. The form of an exchange's time is that of ring all-reduce
(Patarasuk and Yuan, 2009); that buckets overlap with the backward pass in this way is how
DistributedDataParallel works (Li et al., VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.model.documents.rank_scaling import Link

FIRST_BUCKET: Final = 1 << 20
"""bytes after which DistributedDataParallel closes its first bucket, unless a size is given"""
BUCKET: Final = 25 << 20
"""and every other one"""
WORK: Final = 4_000_000
"""numbers drawn for one prediction; bounds its time to about a second"""
DRAWS: Final = (60, 4000)
LEAST_SPREAD: Final = 0.1
"""smallest relative error of a link's time that is believed"""


@dataclass(frozen=True, slots=True, eq=False)
class OwnSteps:
    """Steps of ranks without their exchanges, s since the step began: when each bucket is ready,
    of shape (steps, buckets), and when the own work of the step ends, of shape (steps,). Rows of
    the same step of several ranks lie ``stride`` apart."""

    ready: F64
    own: F64
    stride: int
    correlation: float
    """of two ranks in the same step, 0 to 1"""

    def faster(self, times: float) -> OwnSteps:
        """The same steps if all own work took ``1 / times`` as long."""
        return replace(self, ready=self.ready / times, own=self.own / times)


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """The mean step of n ranks, s: all of it, the mean rank's own work, the slowest rank's. The
    error is that of the mean, from the number of measured steps."""

    step: float
    own: float
    slowest: float
    error: float


def pack_buckets(sizes: Sequence[int], ready: F64, first: int, cap: int) -> list[I64]:
    """Return the tensors of each bucket, in the order in which they are ready (median). A bucket
    is closed by the tensor with which it reaches ``first`` (the first one) or ``cap`` bytes."""
    buckets: list[list[int]] = [[]]
    filled = 0
    for index in np.argsort(np.median(ready, axis=0), kind="stable"):
        buckets[-1].append(int(index))
        filled += sizes[index]
        if filled >= (first if len(buckets) == 1 else cap):
            buckets.append([])
            filled = 0
    return [np.array(bucket, np.int64) for bucket in buckets if bucket]


def own_steps(ranks: Sequence[F64], buckets: Sequence[I64]) -> OwnSteps:
    """Return the own work of measured steps.

    Args:
        ranks: of each rank an array of shape (steps, 2 + tensors), s since the step began: its end,
            the end of the last backward pass with its exchange, each gradient ready.
        buckets: the tensors of each bucket.
    """
    count = min(len(rows) for rows in ranks)
    ready, own = [], []
    for rows in ranks:
        end, backward = rows[:count, 0], rows[:count, 1]
        gradients = rows[:count, 2:]
        last = gradients.max(axis=1) if len(ranks) > 1 else backward
        tail = (end - backward)[:, None]  # the optimizer: before the next step's forward pass
        ready.append(tail + np.stack([gradients[:, b].max(axis=1) for b in buckets], axis=1))
        own.append(tail[:, 0] + last)
    return OwnSteps(np.concatenate(ready), np.concatenate(own), count, _correlation(own))


def _correlation(own: Sequence[F64]) -> float:
    if len(own) < 2 or len(own[0]) < 8 or min(float(np.std(rank)) for rank in own) <= 0.0:
        return 0.0
    table: F64 = np.atleast_2d(np.corrcoef(np.stack(own)))
    pairs = table[np.triu_indices(len(own), 1)]
    return float(np.clip(pairs.mean(), 0.0, 1.0))


def fit_link(rows: Sequence[tuple[int, float]], ranks: int) -> Link | None:
    """Fit latency and bandwidth to (bytes, s) of all-reduces of ``ranks`` ranks, with relative
    errors; None of fewer than two sizes."""
    sizes = np.array([size for size, _ in rows], np.float64)
    times = np.array([time for _, time in rows], np.float64)
    if len(set(sizes)) < 2 or not (times > 0).all():
        return None
    volume, messages = sizes * _volume(ranks), count_messages(ranks)
    terms = np.stack([np.full(len(times), messages), volume], axis=1) / times[:, None]
    latency, per_byte = np.linalg.lstsq(terms, np.ones(len(times)), rcond=None)[0]
    latency = max(float(latency), 0.0)
    per_byte = float(per_byte) if per_byte > 0 else float(times[-1] / volume[-1])
    misses = (messages * latency + volume * per_byte) / times - 1.0
    spread = max(float(np.sqrt(np.mean(misses**2))), LEAST_SPREAD)
    return Link(latency_s=latency, bytes_per_s=1 / per_byte, spread=spread, source="measured")


def _volume(ranks: int) -> float:
    return 2.0 * (ranks - 1) / ranks


def count_messages(ranks: int, *, ring: bool = False) -> int:
    """Messages one after the other in an all-reduce: up and down a tree, as NCCL chooses where
    latency counts, or around a ring (Thakur et al., 2005)."""
    return 2 * (ranks - 1 if ring else (ranks - 1).bit_length())


def simulate_step(
    steps: OwnSteps, sizes: F64, link: Link | None, ranks: int, *, ring: bool = False
) -> SimulatedStep:
    """Return the mean step of ``ranks`` ranks. ``sizes`` are the bytes of the buckets; without a
    ``link`` exchanges take no time."""
    rng = np.random.default_rng(20200811)
    own, slowest, ends = [], [], []
    left = int(np.clip(WORK // (ranks * (len(sizes) + 1)), *DRAWS))
    while left > 0:  # in parts, as many ranks need much memory
        rows = _draw_rows(steps, ranks, min(left, max(WORK // (ranks * (len(sizes) + 1)), 1)), rng)
        left -= len(rows)
        ready, drawn = steps.ready[rows].max(axis=1), steps.own[rows]
        own.append(drawn.mean(axis=1))
        slowest.append(drawn.max(axis=1))
        ends.append(
            np.maximum(slowest[-1], exchange_end(ready, _lengths(sizes, link, ranks, ring)))
        )
    step = np.concatenate(ends)
    return SimulatedStep(
        float(step.mean()),
        float(np.concatenate(own).mean()),
        float(np.concatenate(slowest).mean()),
        float(step.std() / max(np.sqrt(len(steps.own)), 1.0)),
    )


def _draw_rows(steps: OwnSteps, ranks: int, draws: int, rng: np.random.Generator) -> I64:
    """Rows of shape (draws, ranks). A rank takes part in the step that all share with the square
    root of the correlation as probability, so that two of them share it with the correlation."""
    count, measured = steps.stride, len(steps.own) // steps.stride
    common = rng.integers(count, size=(draws, 1))
    alone = rng.integers(count, size=(draws, ranks))
    shares = rng.random((draws, ranks)) < np.sqrt(steps.correlation)
    rank = rng.integers(measured, size=(draws, ranks))
    return np.where(shares, common, alone) + rank * count


def _lengths(sizes: F64, link: Link | None, ranks: int, ring: bool) -> F64:
    if link is None or ranks < 2:
        return np.zeros(0)
    return (
        count_messages(ranks, ring=ring) * link.latency_s
        + sizes * _volume(ranks) / link.bytes_per_s
    )


def exchange_end(ready: F64, lengths: F64) -> F64:
    """Return when the last exchange of each step ends, s. ``ready`` has shape (steps, buckets),
    ``lengths`` are those of the exchanges, one after the other on the link."""
    free = np.zeros(len(ready))
    for index, length in enumerate(lengths):
        free = np.maximum(ready[:, index], free) + length
    return free


def needed_bandwidth(
    steps: OwnSteps, sizes: F64, link: Link, ranks: int, longest_s: float
) -> float | None:
    """Return the bandwidth, bytes/s, with which the step takes at most ``longest_s``; None if no
    bandwidth is enough."""
    low, high = link.bytes_per_s, link.bytes_per_s * 1024.0

    def takes(bandwidth: float) -> float:
        faster = link.with_speed(bandwidth)
        return simulate_step(steps, sizes, faster, ranks).step

    if takes(high) > longest_s:
        return None
    if takes(low) <= longest_s:
        return low
    for _ in range(12):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if takes(middle) <= longest_s else (middle, high)
    return high


def needed_batch(
    steps: OwnSteps, sizes: F64, link: Link, ranks: int, target: float
) -> float | None:
    """Return how many times the batch of each rank must be for an efficiency of ``target``, if
    own work grows with the batch; None if 16 times is not enough."""
    for times in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0):
        longer = steps.faster(1.0 / times)
        seen = simulate_step(longer, sizes, link, ranks)
        if float(longer.own.mean()) >= target * seen.step:
            return times
    return None
