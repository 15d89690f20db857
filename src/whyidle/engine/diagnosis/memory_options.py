"""What other settings would need and take: batch, precision, accumulation, recomputation, the
optimizer's state. All from one look; a setting that would make it another job is left out, and the
report says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from whyidle.analysis.memory_plan import MemoryPlan, estimate_noise
from whyidle.model.memory import MemoryOption, NoiseRow

FACTORS: Final = (0.5, 1, 2, 4)
"""batches that are listed, in multiples of the job's"""
MOST_COST: Final = 0.1
"""share of a pass that the first choice of recomputed modules may take"""
NEAR_BEST: Final = 0.97
"""share of the best rate that the proposed batch must reach: beyond the knee more samples per step
cost learning and memory for little (Pollux, OSDI 2021). A twentieth may be lost, of which 2 % are
the error of the rates themselves."""
FEW_BITS: Final = 0.26
"""share of the optimizer's state that is left in 8 bits, with one scale per 256 values (Dettmers et
al., 8-bit Optimizers via Block-wise Quantization, 2022)"""
EQUAL: Final = 1e-3
"""relative difference of gradients above which parts of a batch do not make the whole"""
STATEFUL: Final = ("BatchNorm", "SyncBatchNorm")
RANDOM: Final = ("Dropout",)


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
        found += [self._narrow_precision(batch), self._accumulation(batch)]
        found += [self._few_bits(batch), self._no_temporaries(batch)]
        found += [self.with_recomputed(batch, chosen) for chosen in self.recomputable]
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
        usable, worth = plan.usable, self._time_to_loss(batch) if change == "batch" else None
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
            time_to_loss=worth[0] if worth else None,
            time_to_loss_low=worth[1] if worth else None,
            time_to_loss_high=worth[2] if worth else None,
        )

    def _narrow_precision(self, batch: int) -> MemoryOption | None:
        look, plan = self.plan.look, self.plan
        if not look.passes("bfloat16"):
            return None
        peak = plan.peak_at(batch, autocast="bfloat16")
        narrow = [seconds for size, seconds in look.narrow_times if size == batch]
        if not narrow or plan.rest_s is None:
            return None
        step_s = plan.rest_s + narrow[0] * plan.pace * plan.passes
        return self._option("precision", "bfloat16 autocast", batch, peak, step_s)

    def _accumulation(self, batch: int) -> MemoryOption | None:
        half, plan = batch // 2, self.plan
        if batch % 2 or self.why_no_accumulation():
            return None
        single, whole, rest = plan.pass_at(half), plan.peak_at(half), plan.rest_s
        if single is None or whole is None or rest is None:
            return None
        kept = 0 if plan.look.kept_gradients else plan.look.gradients or 0
        step_s = rest + 2 * single * plan.passes
        summary = f"{half} samples at a time, gradients accumulated"
        return self._option("accumulation", summary, batch, whole + kept, step_s)

    def why_no_accumulation(self) -> str:
        """Why smaller parts would be another job; empty where they would not, or nobody knows."""
        look = self.plan.look
        kinds = {kind for _, kind in look.modules}
        if batch_norm := next((k for k in sorted(kinds) if k.startswith(STATEFUL)), None):
            return f"{batch_norm} computes its statistics over the parts"
        difference = self.parts_difference
        if difference is None:
            return "the gradients of parts were not compared"
        if difference > EQUAL and not any(kind.startswith(RANDOM) for kind in kinds):
            return (
                f"the gradients of its parts differ from that of the whole by {difference:.1%}: "
                "the loss is no mean over samples (a mean over tokens, or pairs within the batch)"
            )
        return ""

    @property
    def parts_difference(self) -> float | None:
        """Length of the difference between the mean gradient of the parts and that of the whole
        batch, relative to the latter."""
        look = self.plan.look
        count = len(look.products)
        if not count or len(look.whole_products) != count + 1:
            return None
        *along, whole = look.whole_products
        mean = sum(map(sum, look.products)) / count**2
        apart = mean - 2 * sum(along) / count + whole
        return float((max(apart, 0.0) / whole) ** 0.5) if whole else None

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
        rest = max(
            phases["forward"], phases["backward"], phases["optimizer"] - self.plan.update_bytes
        )
        return self._option("optimizer", "a fused optimizer, without temporaries", batch, rest)

    # -- the batch ----------------------------------------------------------------------------

    @cached_property
    def noise(self) -> NoiseRow | None:
        """The gradient noise scale."""
        found = estimate_noise(self.plan.look)
        if found is None:
            return None
        return NoiseRow(samples=_finite(found.samples), low=found.low, high=_finite(found.high))

    def _time_to_loss(self, batch: int) -> tuple[float | None, float, float] | None:
        """Time to the same loss relative to now, with its interval (McCandlish et al. 2018)."""
        plan, noise = self.plan, self.noise
        now, step_s = plan.look.batch or 0, plan.step_at(batch)
        now_s = plan.step_at(now)
        if noise is None or step_s is None or now_s is None:
            return None
        samples = (batch * plan.passes, now * plan.passes)

        def relative(scale: float | None) -> float:
            steps = 1.0
            if scale is not None:
                steps = (1 + scale / samples[0]) / (1 + scale / samples[1])
            else:  # beyond all bounds: each sample is worth the same
                steps = samples[1] / samples[0]
            return step_s / now_s * steps

        ends = sorted((relative(noise.low), relative(noise.high)))
        return relative(noise.samples), ends[0], ends[1]

    @cached_property
    def best_batch(self) -> MemoryOption | None:
        """The smallest batch whose rate is near the best that fits, between the job's own and the
        largest that was timed: beyond, and below, a line tells nothing of the knee."""
        plan, now = self.plan, self.plan.look.batch
        if not now or len(plan.pass_times) < 2 or plan.step_s is None:
            return None
        most = max(plan.pass_times)
        sizes = {max(round(now * 2 ** (power / 2)), 1) for power in range(7)}
        options = [self.at_batch(size) for size in sorted(sizes) if size <= max(most, now)]
        fitting = [one for one in options if one.samples_per_s and one.fits is not False]
        best = max((one.samples_per_s or 0.0 for one in fitting), default=0.0)
        near = [one for one in fitting if (one.samples_per_s or 0.0) >= NEAR_BEST * best]
        return near[0] if near else None


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value
