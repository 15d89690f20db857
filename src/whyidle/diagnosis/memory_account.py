"""The memory section of the document, from a look at memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import backward_passes
from whyidle.analysis.memory.allocation_stretches import AllocationOrder
from whyidle.analysis.memory.memory_plan import MemoryPlan, Phase
from whyidle.diagnosis.memory_options import OptionList
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
