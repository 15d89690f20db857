"""What holds memory in a step, and the peak and the step with other settings.

A step's peak is what lives through it (parameters, buffers, optimizer state, other tensors), the
batch, and the highest stretch of its passes (``allocation_stretches``) or the update.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, Literal

import numpy as np

from whyidle.analysis.memory.allocation_stretches import AllocationOrder, extrapolate_stretches
from whyidle.model.memory_look import MemoryLook

Phase = Literal["forward", "backward", "optimizer"]
USABLE: Final = 0.9
"""share of the free memory that a plan may use (a reserve is asked for: pytorch-lightning#21154)"""
FARTHEST, NEVER = 4.0, 16.0
"""multiples of the largest recorded batch for a direction only, and for nothing: kernels change"""
LEAST_SAVED: Final = 0.01
"""share of the peak below which a module is not worth recomputing"""


@dataclass(frozen=True)
class MemoryPlan:
    """Predictions from one look; ``step_s`` is the job's step, ``passes`` its micro-batches."""

    look: MemoryLook
    step_s: float | None = None
    passes: int = 1

    @cached_property
    def _pair(self) -> tuple[AllocationOrder, ...]:
        """The recorded passes, the smallest first."""
        recorded = self.look.passes()
        return tuple(AllocationOrder(one, self.look.modules) for one in recorded if one.rows)

    @cached_property
    def job_order(self) -> AllocationOrder | None:
        """The recorded pass at the job's batch."""
        own = self.look.batch or 0
        return next((o for o in self._pair if o.recorded.batch == own), None)

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
        """Bytes that the process may hold: of the device that is planned for, or what it holds now
        and what is free."""
        look = self.look
        if look.target is not None or look.free_bytes is None:
            return look.target
        held = look.allocated
        if held is None and self.of_host:
            held = look.process_begin
        if held is None:
            own = 0 if look.kept_gradients else look.gradients
            held = self.persistent + sum(n or 0 for n in (own, look.batch_bytes, look.results))
        return held + look.free_bytes

    @property
    def usable(self) -> int | None:
        """The part of the limit that a plan may fill."""
        free = self.look.target or self.look.free_bytes
        if self.limit is None or free is None:
            return None
        return self.limit - round((1.0 - USABLE) * free)

    def phases(self, batch: float, chosen: Collection[int] = ()) -> dict[Phase, float] | None:
        """Peak of each phase of the step at a batch; None where it is not known."""
        look, pair = self.look, self._pair
        if not pair or (look.batch is None and batch):
            return None
        if look.batch is not None and batch > NEVER * self._largest_seen:
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
        times = batch / look.batch if look.batch else 1.0
        base = self.persistent + (look.batch_bytes or 0) * times
        results = (look.results or 0) * times  # of the step before, until new ones replace them
        forward, backward = levels[is_forward > 0], levels[is_forward == 0]
        end = float(self.final_level(batch))
        return {
            "forward": base + results + float(forward.max(initial=0.0)),
            "backward": base + float(backward.max(initial=0.0)),
            "optimizer": base + end + self.update_bytes,
        }

    def final_level(self, batch: float) -> float:
        """The level after the passes, above that at their begin: gradients, and results that
        variables of the script hold."""
        ends = [(one.recorded.batch, float(one.size.sum())) for one in self._pair]
        (low, first), (high, last) = ends[0], ends[-1]
        return first + (last - first) * (batch - low) / max(high - low, 1)

    @property
    def of_host(self) -> bool:
        """Whether the process is measured, with its libraries and the workspaces of operators: the
        job is on a CPU, and no device is planned for."""
        look = self.look
        known = bool(look.process_bytes and look.process_begin)
        return look.device == "cpu" and look.target is None and known

    def peak_at(self, batch: float, chosen: Collection[int] = ()) -> float | None:
        """The peak of the step at a batch, with modules recomputed: of tensors, or of the process
        on a CPU, where workspaces grow as the step's tensors do."""
        phases = self.phases(batch, chosen)
        if phases is None or not self.of_host:
            return None if phases is None else max(phases.values())
        look, now = self.look, self.phases(self.look.batch or 0) or phases
        most, grown = look.process_bytes or 0, max(now.values()) - self.persistent
        begin = min(look.process_begin or 0, most - grown)  # the heap may have kept free pieces
        return begin + (most - begin) / max(grown, 1.0) * (max(phases.values()) - self.persistent)

    def peak_over(self, ranks: int, stage: int) -> float | None:
        """The peak at the job's own batch with the state of the training divided among ranks: the
        optimizer's (stage 1 of ZeRO), gradients (2), parameters (3, FSDP), which then gather those
        of two modules at a time. Activations are not divided (Rajbhandari et al., 2020)."""
        look, order = self.look, self.job_order
        if order is None or not look.parameters:
            return None
        shares = [1.0 / ranks if stage >= least else 1.0 for least in (1, 2, 3)]
        optimizer, gradients, parameters = shares
        held = look.parameters * parameters + (look.optimizer or 0) * optimizer
        held += (look.buffers or 0) + (look.others or 0) + (look.batch_bytes or 0)
        held += (look.gradients or 0) * gradients if look.kept_gradients else 0
        held += 2 * max(look.module_parameters, default=0) if stage == 3 else 0
        sizes = order.size.astype(np.float64)
        backward = order.time >= order.forward_end
        lasting = np.isin(np.arange(len(sizes)), list(order.lasting_rows()))
        sizes[backward & lasting] *= gradients
        levels = np.concatenate([[0.0], np.cumsum(sizes)])
        forward = float(levels[1:][~backward].max(initial=0.0)) + (look.results or 0)
        update = float(levels[-1]) + self.update_bytes * optimizer
        return held + max(forward, float(levels.max()), update)

    # -- time ---------------------------------------------------------------------------------

    def step_at(self, batch: float, chosen: Collection[int] = ()) -> float | None:
        """Seconds of the step at the job's own batch: no other was timed."""
        if self.step_s is None or batch != self.look.batch:
            return None
        own = min((seconds for _, seconds in self.look.times), default=0.0)
        return self.step_s + self.forward_share(chosen) * min(own, self.step_s)

    def forward_share(self, chosen: Collection[int]) -> float:
        """The forward pass of modules, as a share of a whole pass."""
        own = min((seconds for _, seconds in self.look.times), default=None)
        seconds = sum(self.look.module_times[number] for number in chosen)
        return seconds / own if own else 0.0

    def is_far(self, batch: float) -> bool:
        """Whether a batch is too large for more than a direction."""
        return batch > FARTHEST * self._largest_seen

    @property
    def _largest_seen(self) -> int:
        return max((one.batch for one in self.look.replays), default=0)

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
        # those that keep most are considered for recomputation
        return sorted(worth, key=lambda n: -sums[n])[:40]

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
        """The largest batch that fits, in multiples of 8, the units of matrix cores, and of those
        for which a peak is predicted; None: not known, 0: none."""
        usable, now = self.usable, self.look.batch
        if usable is None or not now or self.peak_at(now, chosen) is None or len(self._pair) < 2:
            return None
        for step in (8, 1):
            sizes = range(step, int(NEVER * self._largest_seen) + 1, step)
            fit = bisect_right(sizes, usable, key=lambda n: round(self.peak_at(n, chosen) or 0))
            if fit:
                return sizes[fit - 1]
        return 0
