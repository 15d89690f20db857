"""The peak of memory from the order of allocations.

A recorded pass is cut where modules begin and end and where their backward passes begin. The
highest level of each such *stretch* is affine in the batch, while their maximum is not: each is
extrapolated from two sizes. Recomputation of a module is predicted on an edited recording: what its
backward pass needs is freed when its forward pass ends, which is repeated before the backward one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.model.memory_look import RecordedPass

FORWARD, UNPACK = 0, 1


@dataclass(frozen=True)
class AllocationOrder:
    """One recorded pass as columns, with the names of its modules."""

    recorded: RecordedPass
    modules: tuple[tuple[str, str], ...]

    @cached_property
    def time(self) -> I64:
        """When memory was taken or given back, ns."""
        return np.array([row[0] for row in self.recorded.rows], np.int64)

    @cached_property
    def address(self) -> I64:
        """Which memory."""
        return np.array([row[1] for row in self.recorded.rows], np.int64)

    @cached_property
    def size(self) -> I64:
        """Bytes, negative where it was given back."""
        return np.array([row[2] for row in self.recorded.rows], np.int64)

    @cached_property
    def _edits(self) -> dict[int, tuple[I64, I64] | None]:
        """Module -> the rows that its recomputation adds."""
        return {}

    @cached_property
    def cuts(self) -> I64:
        """Begins of the stretches, ns; the first is 0."""
        marks = self.recorded.marks
        ends = [end for _, end, kind, _ in marks if kind == FORWARD]
        times = sorted([0, *(mark[0] for mark in marks), *ends])
        return np.array(times, np.int64)

    @cached_property
    def shape(self) -> tuple[tuple[int, int], ...]:
        """What the cuts are: passes of the same shape have the same stretches."""
        marks = self.recorded.marks
        kinds = [(begin, kind, number) for begin, _, kind, number in marks]
        kinds += [(end, 2, number) for _, end, kind, number in marks if kind == FORWARD]
        return tuple((kind, number) for _, kind, number in sorted(kinds))

    @cached_property
    def forward_end(self) -> int:
        """When the last call of a module in the forward pass ended, before any backward pass."""
        back = min((m[0] for m in self.recorded.marks if m[2] == UNPACK), default=1 << 62)
        ends = [end for _, end, kind, _ in self.recorded.marks if kind == FORWARD and end <= back]
        return max(ends, default=0)

    def lasting_rows(self, until: int | None = None, first: int = 0) -> set[int]:
        """The rows whose memory was not given back, up to a row or in the whole pass."""
        live: dict[int, int] = {}
        for turn, (_, address, size) in enumerate(self.recorded.rows[first:until], first):
            if size > 0:
                live[address] = turn
            else:
                live.pop(address, None)
        return set(live.values())

    def subtree(self, number: int) -> set[int]:
        """A module and those inside it."""
        name = self.modules[number][0]
        inside = f"{name}."
        return {n for n, (own, _) in enumerate(self.modules) if own.startswith(inside)} | {number}

    def calls_of(self, number: int) -> list[tuple[int, int]]:
        """Begin and end of the calls of a module, ns."""
        return [(b, e) for b, e, kind, own in self.recorded.marks if (kind, own) == (0, number)]

    def without_saved(self, chosen: Collection[int]) -> tuple[I64, I64]:
        """Times and sizes of the rows with some modules recomputed."""
        times, sizes = [], []
        for number in chosen:
            if number not in self._edits:
                self._edits[number] = self._recompute_rows(number)
            edit = self._edits[number]
            if edit is not None:
                times.append(edit[0])
                sizes.append(edit[1])
        whole = np.concatenate([*times, self.time])
        order = np.argsort(whole, kind="stable")
        return whole[order], np.concatenate([*sizes, self.size])[order]

    def _recompute_rows(self, number: int) -> tuple[I64, I64] | None:
        """The rows that the recomputation of a module adds; None where that is unknown."""
        calls, inside = self.calls_of(number), self.subtree(number)
        back = [b for b, _, kind, own in self.recorded.marks if kind == UNPACK and own in inside]
        if len(calls) != 1 or not back:
            return None
        (begin, end), again = calls[0], min(back)
        own = self._only_saved_by(number, inside, begin, end)
        rows = (self.time >= begin) & (self.time < end)
        kept = int(sum(own.values()))
        if not kept or again < end:
            return None
        repeated = self.size[rows]
        net = int(repeated.sum())
        times = [end, *([again] * len(repeated)), again]
        sizes = [-kept, *repeated.tolist(), kept - net]
        return np.array(times, np.int64), np.array(sizes, np.int64)

    def _only_saved_by(self, number: int, inside: set[int], begin: int, end: int) -> dict[int, int]:
        """Address -> bytes of what lives at the end of a call only for the backward pass of these
        modules: made in the call, not its result, and kept by no other module."""
        recorded, (first, last) = self.recorded, np.searchsorted(self.time, (begin, end)).tolist()
        live = [recorded.rows[turn][1:] for turn in self.lasting_rows(last, first)]
        ours = {address for address, _, owner in recorded.saved if owner in inside}
        others = {address for address, _, owner in recorded.saved if owner not in inside}
        others |= {address for address, owner in recorded.outputs if owner == number}
        return {a: size for a, size in live if a in ours and a not in others}

    def stretch_levels(self, chosen: Collection[int] = ()) -> F64:
        """The highest level of each stretch, bytes above the level at the begin."""
        times, sizes = self.without_saved(chosen)
        levels = np.concatenate([[0], np.cumsum(sizes)])
        # the level at a cut counts for the stretch that begins there
        first = np.searchsorted(times, self.cuts, side="left")
        ends = np.append(first[1:], len(times))
        return np.array(
            [levels[a : b + 1].max() for a, b in zip(first, ends, strict=True)], np.float64
        )

    def activation_bytes(self) -> dict[int, int]:
        """Module -> bytes that its backward pass keeps; shared ones count for the first."""
        found: dict[int, int] = {}
        seen: set[int] = set()
        for address, size, owner in self.recorded.saved:
            if address not in seen:
                seen.add(address)
                found[owner] = found.get(owner, 0) + size
        return found


def extrapolate_stretches(
    first: AllocationOrder, second: AllocationOrder, batch: float, chosen: Collection[int] = ()
) -> tuple[F64, F64] | None:
    """Return the highest level of each stretch at another batch, and whether it belongs to the
    forward pass (1 or 0); None where the two passes took different ways."""
    if first.shape != second.shape or first.recorded.batch == second.recorded.batch:
        return None
    low, high = first.stretch_levels(chosen), second.stretch_levels(chosen)
    share = (batch - first.recorded.batch) / (second.recorded.batch - first.recorded.batch)
    forward = (first.cuts < first.forward_end).astype(np.float64)
    return low + (high - low) * share, forward
