"""The memory section of the document, from a look at memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import backward_passes
from whyidle.analysis.memory.allocation_stretches import AllocationOrder
from whyidle.analysis.memory.memory_plan import MemoryPlan, Phase
from whyidle.model.documents.memory import MemoryAccount, MemoryOption, ModuleRow, Part
from whyidle.model.memory_look import MemoryLook

MEASURED: Final = "measured"
BESIDE: Final = "the process without tensors: libraries, operator workspaces"
OUTSIDE: Final = "outside of modules"


def build_account(facts: Facts) -> MemoryAccount | None:
    """Build the section; None without a look."""
    look = facts.timeline.process.memory_look
    if look is None:
        return None
    steps = facts.steps.seconds
    step_s = float(np.median(steps)) if facts.steps.found_by and len(steps) else None
    plan = MemoryPlan(look, step_s, backward_passes(facts) or 1)
    phases = plan.phases(look.batch or 0)
    order = sorted((phases or {}).items(), key=lambda row: -row[1])
    phase = order[0][0] if order else None
    peak = plan.peak_at(look.batch or 0)
    own, listed = plan.job_order, OptionList(plan)
    largest = plan.largest_batch()
    spare = max(look.reserved - look.allocated, 0) if look.reserved and look.allocated else None
    return MemoryAccount(
        device=look.device,
        batch=look.batch,
        limit=plan.limit,
        usable=None if look.target is None else plan.usable,
        peak=round(peak) if peak else None,
        peak_phase=phase,
        parts=_list_parts(plan, phase, peak),
        modules=_list_modules(look, own) if own else [],
        reserved=look.reserved,
        fragmentation=spare,
        loader_bytes=_loader_bytes(facts, look),
        shared_bytes=look.shared_bytes,
        options=listed.build_options(),
        largest_batch=largest,
        largest_recomputed=_largest_recomputed(plan, listed, largest),
        unknown=_list_unknown(look, phases),
    )


def _largest_recomputed(
    plan: MemoryPlan, listed: OptionList, largest: int | None
) -> MemoryOption | None:
    """The largest batch that fits with modules recomputed for at most a tenth of the time."""
    if not largest or not listed.recomputable:
        return None
    chosen = listed.recomputable[0]
    batch = plan.largest_batch(chosen)
    return listed.with_recomputed(batch, chosen) if batch and batch > largest else None


def _loader_bytes(facts: Facts, look: MemoryLook) -> int | None:
    """Batches that the workers of the largest loader may have made ahead."""
    loaders = facts.timeline.loading.loaders
    if not look.batch_bytes or not loaders:
        return None
    ahead = (loader.workers * (loader.prefetch or 2) for loader in loaders)
    return max(ahead) * look.batch_bytes


def _list_parts(plan: MemoryPlan, phase: Phase | None, peak: float | None) -> list[Part]:
    """The owners at the peak; where the peak is not known, those that outlive the step."""
    look = plan.look
    parts = {
        "parameters": look.parameters,
        "buffers": look.buffers,
        "optimizer state": look.optimizer,
        "batch": look.batch_bytes,
        "other tensors of the script": look.others,
    }
    if phase is None:
        parts["gradients"] = look.gradients
    elif phase == "optimizer":
        own = 0 if look.kept_gradients else look.gradients or 0
        rest = plan.final_level(look.batch or 0) - own
        parts |= {"gradients": look.gradients, "workspace": plan.update_bytes}
        parts["results"] = round(max(rest, 0.0))
    elif plan.job_order is not None:
        parts |= _split_peak(plan.job_order, phase)
        if look.kept_gradients:
            parts["gradients"] = look.gradients
        if phase == "forward":
            parts["results"] = look.results
    if peak is not None and plan.of_host:
        parts[BESIDE] = max(round(peak) - sum(part or 0 for part in parts.values()), 0)
    rows = [Part(owner=owner, bytes=size) for owner, size in parts.items() if size]
    return sorted(rows, key=lambda part: -part.bytes)


def _split_peak(own: AllocationOrder, phase: Phase) -> dict[str, int | None]:
    """The level at the peak of a phase: activations, gradients, and everything else."""
    levels = np.cumsum(own.size)
    inside = own.time < own.forward_end
    mask = inside if phase == "forward" else ~inside
    if not mask.any():
        return {}
    at = int(np.flatnonzero(mask)[np.argmax(levels[mask])])
    live, lasting = own.lasting_rows(at + 1), own.lasting_rows()
    saved = {address for address, _, _ in own.recorded.saved}
    gradients = sum(int(own.size[turn]) for turn in live & lasting)
    kept = [turn for turn in live - lasting if int(own.address[turn]) in saved]
    activations = sum(int(own.size[turn]) for turn in kept)
    rest = int(levels[at]) - gradients - activations
    return {"activations": activations, "gradients": gradients, "workspace": max(rest, 0)}


def _list_modules(look: MemoryLook, own: AllocationOrder) -> list[ModuleRow]:
    sizes = own.activation_bytes()
    timed = len(look.module_times) == len(look.modules)
    rows = [
        ModuleRow(
            name=look.modules[n][0] if n >= 0 else OUTSIDE,
            kind=look.modules[n][1] if n >= 0 else "",
            activations=size,
            forward_s=look.module_times[n] if n >= 0 and timed else None,
        )
        for n, size in sizes.items()
    ]
    return sorted(rows, key=lambda row: -row.activations)[:60]


def _list_unknown(look: MemoryLook, phases: dict[Phase, float] | None) -> list[str]:
    unknown = []
    if look.state != MEASURED:
        unknown.append(f"no step was recorded: {look.state}")
    elif phases is None:
        unknown.append(f"this PyTorch reports no allocations of the device {look.device!r}")
    elif look.batch is None or (look.why_no_batch and len(look.passes()) < 2):
        unknown.append(f"other batches: {look.why_no_batch}")
    if look.uneven:
        unknown.append("other steps: inputs differ in length or size, and with them the peak")
    if look.reserved is None and look.device != "cpu":
        unknown.append("fragmentation: this device's allocator does not report reserved memory")
    return unknown


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
