"""What holds memory in a step, and the peak and the step with other settings.

A step's peak is what lives through it (parameters, buffers, optimizer state, other tensors), the
batch, and the highest stretch of the pass (``allocation_stretches``) or the update. The time of a
pass is affine in the batch (P6) between the sizes that were timed, and beyond the largest along the
last two; the rest of the step stays.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final, Literal

import numpy as np

from whyidle.analysis.allocation_stretches import AllocationOrder, extrapolate_stretches
from whyidle.analysis.arrays import F64
from whyidle.model.memory_look import MemoryLook

Phase = Literal["forward", "backward", "optimizer"]
USABLE: Final = 0.9
"""share of the free memory that a plan may use: evaluation and the longest sample need some too
(users of batch finders ask for such a reserve: pytorch-lightning#21154)"""
FARTHEST: Final = 2.0
"""multiple of the largest measured batch up to which a line through two sizes held within 10 % on
nine of ten models; beyond it only a direction"""
LEAST_SAVED: Final = 0.01
"""share of the peak below which a module is not worth recomputing"""
MOST_MODULES: Final = 40
"""modules that are considered for recomputation, those that keep most first"""


@dataclass(frozen=True)
class MemoryPlan:
    """Predictions from one look; ``step_s`` is the job's step, ``passes`` its micro-batches."""

    look: MemoryLook
    step_s: float | None = None
    passes: int = 1

    def orders(self, autocast: str | None = None) -> tuple[AllocationOrder, ...]:
        """The recorded passes of one precision, the smallest first."""
        recorded = self.look.passes(autocast)
        return tuple(AllocationOrder(one, self.look.modules) for one in recorded if one.rows)

    @cached_property
    def _pair(self) -> tuple[AllocationOrder, ...]:
        return self.orders()

    @cached_property
    def job_order(self) -> AllocationOrder | None:
        """The recorded pass at the job's batch."""
        return next((o for o in self._pair if o.recorded.batch == self.look.batch), None)

    @property
    def persistent(self) -> int:
        """Bytes that live through the step."""
        look = self.look
        kept = look.gradients if look.kept_gradients else 0
        parts = (look.parameters, look.buffers, look.optimizer, look.others, kept)
        return sum(part or 0 for part in parts)

    @property
    def update_bytes(self) -> int:
        """The most that a step of the optimizer takes for itself."""
        return max([0, *accumulate(size for _, _, size in self.look.optimizer_rows)])

    @property
    def limit(self) -> int | None:
        """Bytes that the process may hold: what it holds now, and what is free."""
        look = self.look
        if look.free_bytes is None:
            return None
        held = look.allocated
        if held is None:
            held = self.persistent + sum(
                part or 0
                for part in (
                    0 if look.kept_gradients else look.gradients,
                    look.batch_bytes,
                    look.results,
                )
            )
        return held + look.free_bytes

    @property
    def usable(self) -> int | None:
        """The part of the limit that a plan may fill."""
        free = self.look.free_bytes
        return (
            None
            if self.limit is None or free is None
            else self.limit - round((1.0 - USABLE) * free)
        )

    def phases(
        self, batch: float, chosen: Collection[int] = (), autocast: str | None = None
    ) -> dict[Phase, float] | None:
        """Peak of each phase of the step at a batch; None where it is not known."""
        look, pair = self.look, self._pair if autocast is None else self.orders(autocast)
        if look.batch is None or not pair:
            return None
        if len(pair) > 1:
            found = extrapolate_stretches(pair[0], pair[-1], batch, chosen)
        elif batch == pair[0].recorded.batch:
            one = pair[0]
            forward = (one.cuts < one.forward_end).astype(np.float64)
            found = one.stretch_levels(chosen), forward
        else:
            return None
        if found is None:
            return None
        levels, is_forward = found
        times = batch / look.batch
        base = self.persistent + (look.batch_bytes or 0) * times
        results, gradients = (look.results or 0) * times, look.gradients or 0
        if look.kept_gradients:  # those of a pass are added to them
            levels = np.where(is_forward > 0, levels, np.maximum(levels - gradients, 0.0))
            gradients = 0
        forward = levels[is_forward > 0]
        backward = levels[is_forward == 0]
        return {
            "forward": base + results + float(forward.max(initial=0.0)),
            "backward": base + float(backward.max(initial=0.0)),
            "optimizer": base + results + gradients + self.update_bytes,
        }

    def peak_at(
        self, batch: float, chosen: Collection[int] = (), autocast: str | None = None
    ) -> float | None:
        """The peak of the step at a batch, with modules recomputed, or in another precision."""
        phases = self.phases(batch, chosen, autocast)
        return None if phases is None else max(phases.values())

    # -- time ---------------------------------------------------------------------------------

    @cached_property
    def pass_times(self) -> dict[int, float]:
        """Batch -> seconds of a forward and backward pass without page faults: the shortest, since
        all that disturbs a pass makes it longer."""
        return _shortest(self.look.times)

    def pass_at(self, batch: float) -> float | None:
        """Seconds of a pass at a batch: by the line through the timed sizes on both sides of it, or
        through the nearest two, and with page faults."""
        known, own = self.pass_times, self.look.batch
        if not own or not known or (len(known) == 1 and batch != own):
            return None
        seconds = self.pace * _follow_line(known, batch) + self._fault_seconds(batch)
        return max(seconds, 0.0) or None

    @cached_property
    def pace(self) -> float:
        """How many times longer than the look's the job's own passes are: machines are not equally
        fast at all times, and caches are not equally full."""
        own, shares = self.pass_times.get(self.look.batch or 0), self.look.job_shares
        if not own or not shares or not self.step_s:
            return 1.0
        return shares[0] * self.step_s / self.passes / own

    def _fault_seconds(self, batch: float) -> float:
        """Seconds of the page faults of a pass: memory that a step gives back to the system is had
        again in the next. Those of the job's own passes, in proportion to what a pass holds beside
        what outlives it, or those of the look's passes of that size, if they have more: both may
        have found memory that earlier work had left."""
        look, held = self.look, []
        for size in (batch, look.batch or 1):
            phases = self.phases(size) or {"forward": 0.0, "backward": 0.0}
            held.append(max(phases["forward"], phases["backward"]) - self.persistent)
        times = held[0] / held[1] if min(held) > 0 else batch / (look.batch or 1)
        seen = _follow_line(_shortest(look.fault_times), batch) if look.fault_times else 0.0
        return max(sum(look.job_faults_s[:1]) / self.passes * times, seen)

    @property
    def rest_s(self) -> float | None:
        """Seconds of a step outside of its passes."""
        own, look = self.pass_times.get(self.look.batch or 0), self.look
        if own is None or self.step_s is None:
            return None
        if look.job_shares:
            return look.job_shares[1] * self.step_s + sum(look.job_faults_s[1:])
        return max(self.step_s - own * self.passes, 0.0)

    def step_at(self, batch: float, chosen: Collection[int] = ()) -> float | None:
        """Seconds of the step at a batch: the passes change, the rest stays."""
        then, rest = self.pass_at(batch), self.rest_s
        if then is None or rest is None:
            return None
        return rest + (1.0 + self.forward_share(chosen)) * then * self.passes

    def forward_share(self, chosen: Collection[int]) -> float:
        """The forward pass of modules, as a share of a whole pass."""
        own = self.pass_times.get(self.look.batch or 0)
        seconds = sum(self.look.module_times[number] for number in chosen)
        return seconds / own if own else 0.0

    def is_far(self, batch: float) -> bool:
        """Whether a batch is too large for more than a direction."""
        return batch > FARTHEST * max((one.recorded.batch for one in self._pair), default=0)

    # -- recomputation ------------------------------------------------------------------------

    @cached_property
    def candidates(self) -> list[int]:
        """Modules that may be recomputed: called once, not the whole model, keeping something."""
        own, look = self.job_order, self.look
        if own is None or len(look.module_times) != len(look.modules):
            return []
        kept = own.activation_bytes()
        sums = {
            n: sum(kept.get(part, 0) for part in own.subtree(n))
            for n in range(1, len(look.modules))
            if len(own.calls_of(n)) == 1
        }
        whole = sum(kept.values())
        worth = [n for n, size in sums.items() if LEAST_SAVED * whole < size < 0.9 * whole]
        return sorted(worth, key=lambda n: -sums[n])[:MOST_MODULES]

    def choose_recomputed(self, batch: int, usable: float | None = None) -> list[int]:
        """Choose modules for recomputation at a batch: step by step the one with most peak saved
        for least time, until the peak fits or no longer falls."""
        chosen: list[int] = []
        peak = self.peak_at(batch)
        own = self.job_order
        while peak is not None and own is not None and (usable is None or peak > usable):
            taken = {part for n in chosen for part in own.subtree(n)}
            gains = []
            for number in self.candidates:
                parts = own.subtree(number)
                if parts & taken or any(number in own.subtree(n) for n in chosen):
                    continue
                after = self.peak_at(batch, [*chosen, number])
                if after is not None and after < peak * (1.0 - LEAST_SAVED):
                    cost = max(self.forward_share([number]), 1e-6)
                    gains.append(((peak - after) / cost, number, after))
            if not gains:
                break
            _, number, peak = max(gains)
            chosen.append(number)
        return chosen

    def largest_batch(self, chosen: Collection[int] = ()) -> int | None:
        """The largest batch that fits, in steps of an eighth of the job's; None: not known."""
        usable, now = self.usable, self.look.batch
        if usable is None or not now or self.peak_at(now, chosen) is None or len(self._pair) < 2:
            return None
        step = max(now // 8, 1)
        low, high = 0, step
        while (self.peak_at(high, chosen) or 0.0) <= usable and high < now << 12:
            low, high = high, high * 2
        while high - low > step:
            middle = (low + high) // 2 // step * step
            if middle in (low, high):
                break
            fits = (self.peak_at(middle, chosen) or 0.0) <= usable
            low, high = (middle, high) if fits else (low, middle)
        return low


def _shortest(rows: Collection[tuple[int, float]]) -> dict[int, float]:
    return {size: min(s for own, s in rows if own == size) for size in sorted(dict(rows))}


def _follow_line(known: dict[int, float], at: float) -> float:
    """The value of a broken line, which goes on beyond its ends."""
    points = list(known.items())
    lines = list(pairwise(points)) or [(points[0], points[0])]
    (low, a), (high, b) = next((line for line in lines if line[1][0] >= at), lines[-1])
    return a + (b - a) / max(high - low, 1) * (at - low)


@dataclass(frozen=True, slots=True)
class NoiseEstimate:
    """The gradient noise scale in samples, and its interval."""

    samples: float
    low: float
    high: float


def estimate_noise(look: MemoryLook) -> NoiseEstimate | None:
    """Estimate the noise scale from the gradients of equal parts of one batch: its numerator and
    its denominator apart, the interval by leaving out each part in turn (two standard errors, with
    the factor of so few). None: the parts tell nothing."""
    products, size = np.array(look.products, np.float64), look.part_size
    count = len(products)
    if count < 4 or not size or products.shape != (count, count) or not np.isfinite(products).all():
        return None
    inverse = _signal_to_noise(products, size)
    rest = [_signal_to_noise(_leave_out(products, part), size) for part in range(count)]
    error = float(np.sqrt((count - 1) * np.var(rest)))
    reach = (2.0 + 4.0 / count) * error
    low, high = inverse + reach, inverse - reach
    if low <= 0.0:  # the parts have no direction in common: nothing bounds the scale
        return None
    return NoiseEstimate(_invert(inverse), _invert(low), _invert(high))


def _leave_out(
    products: np.ndarray[tuple[int, int], np.dtype[np.float64]], part: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    rows: np.ndarray[tuple[int, int], np.dtype[np.float64]] = np.delete(products, part, axis=0)
    return np.delete(rows, part, axis=1)


def _signal_to_noise(products: F64, size: int) -> float:
    count = len(products)
    alone, whole = float(np.trace(products)), float(products.sum())
    signal = (whole - alone) / (count * (count - 1))
    noise = (alone / count - signal) * size
    return signal / noise if noise > 0 else float("inf")


def _invert(inverse: float) -> float:
    return 1.0 / inverse if inverse > 0 else float("inf")
