"""What other settings would need: batch, recomputation, the optimizer's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from whyidle.analysis.memory.memory_plan import MemoryPlan
from whyidle.model.documents.memory import MemoryOption

FACTORS: Final = (0.5, 1, 2, 4)
"""batches that are listed, in multiples of the job's"""
MOST_COST: Final = 0.1
"""share of a pass that the first choice of recomputed modules may take"""
IN_HALF: Final = "everything in bfloat16, which may change learning; autocast lies between"
RANKS: Final = tuple(1 << power for power in range(1, 11))
"""ranks that are tried for sharding"""
FEW_BITS: Final = 0.26
"""share of the optimizer's state left in 8 bits, a scale per 256 values (Dettmers et al., 2022)"""


@dataclass(frozen=True)
class OptionList:
    """The options of one plan."""

    plan: MemoryPlan

    def build_options(self) -> list[MemoryOption]:
        """List all options whose peak or step is known."""
        batch = self.plan.look.batch
        if not batch:
            return []
        sizes = [round(batch * times) for times in FACTORS if batch * times >= 1]
        found: list[MemoryOption | None] = [self.at_batch(size) for size in sizes]
        found += [self._few_bits(batch), self._no_temporaries(batch)]
        found += [self.with_recomputed(batch, chosen) for chosen in self.recomputable]
        if self.plan.look.target is not None:
            found += [self._in_half(batch), *self._over_ranks(batch)]
        return [one for one in found if one is not None and (one.peak or one.step_s)]

    def at_batch(self, batch: int) -> MemoryOption:
        """A micro-batch."""
        summary = f"batch of {batch}" + (" (now)" if batch == self.plan.look.batch else "")
        return self._option("batch", summary, batch, self.plan.peak_at(batch))

    @cached_property
    def recomputable(self) -> list[list[int]]:
        """Sets of modules worth recomputing: for a tenth of the time, and all that lower the
        peak."""
        plan, batch = self.plan, self.plan.look.batch or 0
        whole = plan.choose_recomputed(batch)
        small: list[int] = []
        for number in whole:
            if plan.forward_share([*small, number]) <= MOST_COST:
                small.append(number)
        return [chosen for chosen in ([small, whole] if small != whole else [whole]) if chosen]

    def with_recomputed(self, batch: int, chosen: Sequence[int]) -> MemoryOption:
        """Modules recomputed at a batch."""
        look = self.plan.look
        names = [look.modules[number][0] for number in chosen]
        what = "one module" if len(names) == 1 else f"{len(names)} modules"
        summary = f"{what} recomputed" + (f", batch of {batch}" if batch != look.batch else "")
        peak, step_s = self.plan.peak_at(batch, chosen), self.plan.step_at(batch, chosen)
        return self._option("recomputation", summary, batch, peak, step_s, modules=names)

    def _option(  # the columns of a row
        self,
        change: str,
        summary: str,
        batch: int,
        peak: float | None,
        step_s: float | None = None,
        *,
        modules: Sequence[str] = (),
    ) -> MemoryOption:
        plan = self.plan
        usable = plan.usable
        step_s = step_s if step_s is not None else plan.step_at(batch) if not modules else None
        samples = batch * plan.passes
        return MemoryOption(
            change=change,  # type: ignore[arg-type]
            summary=summary,
            batch=batch,
            peak=None if peak is None else round(peak),
            step_s=step_s,
            samples_per_s=samples / step_s if step_s else None,
            fits=None if peak is None or usable is None else peak <= usable,
            far=plan.is_far(batch),
            modules=list(modules),
        )

    def _in_half(self, batch: int) -> MemoryOption | None:
        """All in bfloat16, where all is in 32 bits now: half of everything."""
        peak, look = self.plan.peak_at(batch), self.plan.look
        if peak is None or not look.parameters or look.floating != look.parameters:
            return None
        return self._option("precision", IN_HALF, batch, peak / 2)

    def _over_ranks(self, batch: int) -> list[MemoryOption]:
        """For each stage of sharding that makes the batch fit, the fewest ranks; where none does,
        the last one; nothing where it fits on one rank."""
        plan, usable = self.plan, self.plan.usable or 0
        if (plan.peak_at(batch) or 0.0) <= usable:
            return []
        found: list[MemoryOption] = []
        for stage, name in enumerate(("ZeRO-1", "ZeRO-2", "ZeRO-3 or FSDP"), 1):
            for ranks in RANKS:
                peak = plan.peak_over(ranks, stage)
                last = stage == 3 and not found and ranks == RANKS[-1]
                if peak is not None and (peak <= usable or last):
                    text = f"{name} over {ranks:,} ranks"
                    found.append(self._option("sharding", text, batch, peak))
                    break
        return found

    def _few_bits(self, batch: int) -> MemoryOption | None:
        peak, state = self.plan.peak_at(batch), self.plan.look.optimizer or 0
        if peak is None or state < 0.02 * peak:
            return None
        summary = "the optimizer's state in 8 bits"
        return self._option("optimizer", summary, batch, peak - (1 - FEW_BITS) * state)

    def _no_temporaries(self, batch: int) -> MemoryOption | None:
        """A fused optimizer, where the update is the peak."""
        phases = self.plan.phases(batch)
        if not phases or phases["optimizer"] < max(phases.values()) or not self.plan.update_bytes:
            return None
        without = phases["optimizer"] - self.plan.update_bytes
        rest = max(phases["forward"], phases["backward"], without)
        return self._option("optimizer", "a fused optimizer, without temporaries", batch, rest)
