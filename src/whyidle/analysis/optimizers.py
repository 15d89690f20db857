"""What the optimizer's step is made of: how it is implemented, its launches and its time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.codes import used
from whyidle.analysis.gaps import picked
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.launching import Launching
from whyidle.analysis.scoped import Scoped
from whyidle.model.timeline import HostKind

I64 = NDArray[np.int64]
Implementation = Literal["loop", "foreach", "fused"]

_REGION = re.compile(r"^Optimizer\.step#(\w+)\.step")
FUSED: Final = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
"""optimizers of PyTorch that have ``fused=True``"""
FOREACH: Final = FUSED | {"NAdam", "RAdam", "Adadelta", "Adamax", "ASGD", "RMSprop", "Rprop"}
"""optimizers of PyTorch that have ``foreach=True``"""
TRAFFIC: Final[dict[str, float]] = {"Adam": 7 / 18, "AdamW": 7 / 20, "SGD": 5 / 8}
"""memory traffic of the fused update as a ratio of operator by operator: Adam reads p, g, m, v and
writes p, m, v (7 tensors) where lerp, mul, addcmul, sqrt, div, add and addcdiv move 18; AdamW's
decay moves 2 more; SGD with momentum moves 5 instead of 8"""
LOOP_LAUNCHES = 20
"""fewer launches than this in a step are no loop worth a word"""

FOREACH_LAUNCHES = 5
"""a foreach update of fewer launches has next to nothing to fuse"""


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerWork:
    """The optimizer's steps in scope. ``kernels`` are rows of the device's events."""

    name: str
    implementation: Implementation
    regions: int
    kernels: I64
    calls: int

    @property
    def launches(self) -> float:
        """Launches per optimizer step."""
        return self.calls / max(self.regions, 1)

    @property
    def replaceable(self) -> bool:
        """Whether PyTorch has a cheaper implementation of the same update."""
        if self.implementation == "loop":
            return self.name in FOREACH and self.launches >= LOOP_LAUNCHES
        operators = self.launches >= FOREACH_LAUNCHES
        return self.implementation == "foreach" and self.name in FUSED and operators


def optimizer_work(facts: Scoped, launching: Launching) -> OptimizerWork | None:
    """What the optimizer does; None where the recording marks no optimizer step."""
    rows = facts.named(_REGION.pattern)
    if not len(rows):
        return None
    names = facts.timeline.names
    found = [_REGION.match(names[facts.timeline.host.name[row]]) for row in rows]
    labels, counts = np.unique([match[1] for match in found if match], return_counts=True)
    calls = facts.launches.call[facts.kernels]
    started = picked(facts.timeline.host.start, calls, 0)
    inside = (calls >= 0) & launching.optimizer.covers(started)
    kernels = facts.kernels[inside]
    return OptimizerWork(
        name=str(labels[np.argmax(counts)]),
        implementation=_implementation(facts, kernels, launching.optimizer),
        regions=len(rows),
        kernels=kernels,
        calls=len(np.unique(calls[inside])),
    )


def _implementation(facts: Scoped, kernels: I64, regions: Intervals) -> Implementation:
    """By the operators in the region; kernel names tell where fused code comes from elsewhere."""
    host, names = facts.timeline.host, facts.timeline.names
    ops = facts.named(r"^aten::_(fused|foreach)_", HostKind.OP)
    ops = ops[regions.covers(host.start[ops])]
    if any("_fused_" in names[i] for i in used(host.name[ops])):
        return "fused"
    if len(ops):
        return "foreach"
    called = [names[i].lower() for i in facts.device.name[kernels]]
    own = sum("multi_tensor" in name or "fused" in name or "triton" in name for name in called)
    return "fused" if own > len(called) / 2 else "loop"
