"""The optimizer's step: its implementation, launches and time."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import I64
from whyidle.analysis.device.kernel_launches import KernelLaunches
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role

Implementation = Literal["loop", "foreach", "fused"]

FUSED: Final = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
"""optimizers of PyTorch with ``fused=True``"""
FOREACH: Final = FUSED | {"NAdam", "RAdam", "Adadelta", "Adamax", "ASGD", "RMSprop", "Rprop"}
"""optimizers of PyTorch with ``foreach=True``"""
TRAFFIC: Final[dict[str, float]] = {"Adam": 7 / 18, "AdamW": 7 / 20, "SGD": 5 / 8}
"""memory traffic of the fused update over the unfused one: Adam reads p, g, m, v and writes p, m, v
(7 tensors) where lerp, mul, addcmul, sqrt, div, add and addcdiv move 18; AdamW's decay moves 2
more; SGD with momentum moves 5 instead of 8"""
LOOP_LAUNCHES = 20
"""least launches in a step for a loop that is reported"""

FOREACH_LAUNCHES = 5
"""a foreach update of fewer launches has little to fuse"""


class OptimizerWork(Struct, frozen=True, eq=False):
    """The optimizer's steps in scope. ``kernels`` are rows of the device's events."""

    name: str
    implementation: Implementation
    regions: int
    kernels: I64
    calls: int

    @property
    def launches_per_step(self) -> float:
        """Launches per optimizer step."""
        return self.calls / max(self.regions, 1)

    @property
    def is_replaceable(self) -> bool:
        """Whether PyTorch has a cheaper implementation of the same update."""
        if self.implementation == "loop":
            return self.name in FOREACH and self.launches_per_step >= LOOP_LAUNCHES
        operators = self.launches_per_step >= FOREACH_LAUNCHES
        return self.implementation == "foreach" and self.name in FUSED and operators


def optimizer_work(facts: StepScope, launching: KernelLaunches) -> OptimizerWork | None:
    """Return the optimizer's work; None where no optimizer step is marked."""
    rows = facts.rows_of(Role.OPTIMIZER)
    name_counts = Counter(facts.timeline.host.name[rows].tolist())
    label_counts: Counter[str] = Counter()
    for name, count in name_counts.items():
        label_counts[facts.timeline.label(Role.OPTIMIZER, name)] += count
    del label_counts[""]
    if not label_counts:
        return None
    calls = facts.launches.call[facts.kernels]
    started = pick_rows(facts.timeline.host.start, calls, 0)
    inside = (calls >= 0) & launching.optimizer.contains_times(started)
    kernels = facts.kernels[inside]
    return OptimizerWork(
        name=max(sorted(label_counts), key=lambda name: label_counts[name]),
        implementation=_find_implementation(facts, kernels, launching.optimizer),
        regions=len(rows),
        kernels=kernels,
        calls=len(np.unique(calls[inside])),
    )


def _find_implementation(facts: StepScope, kernels: I64, regions: Intervals) -> Implementation:
    """By the operators inside; kernel names show fused code from elsewhere."""
    host, names = facts.timeline.host, facts.timeline.names
    if regions.contains_times(host.start[facts.rows_of(Role.FUSED_UPDATE)]).any():
        return "fused"
    if regions.contains_times(host.start[facts.rows_of(Role.FOREACH_UPDATE)]).any():
        return "foreach"
    counts = np.bincount(facts.device.name[kernels], minlength=len(names))
    lower = {int(i): names[i].lower() for i in np.flatnonzero(counts)}
    fused = sum(
        int(counts[i])
        for i, name in lower.items()
        if "multi_tensor" in name or "fused" in name or "triton" in name
    )
    return "fused" if fused > len(kernels) / 2 else "loop"
