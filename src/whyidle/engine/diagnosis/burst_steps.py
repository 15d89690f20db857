"""Which steps of its run a burst is of, counted as the run's steps are.

The probe counts calls of optimizers, and records from one call to a later one of the same: where
several take turns, neither is what the diagnosis calls a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whyidle.analysis.step_detection import StepWindows
from whyidle.model.process_facts import BurstFacts


class BurstSteps(NamedTuple):
    """Numbers of the first and the last step, from 1 on; ``alike`` is whether what was recorded as
    a step is one."""

    first: int
    last: int
    alike: bool

    @property
    def step_range(self) -> str:
        """For a sentence."""
        one = self.first == self.last
        return f"step {self.first}" if one else f"steps {self.first} to {self.last}"


def locate_burst(one: BurstFacts, steps: StepWindows, base_ns: int) -> BurstSteps:
    """Of what the probe told of a burst. A recording that holds no steps, or a burst without its
    times, has the probe's own number."""
    if steps.found_by is None or not one.begin or not one.end:
        return BurstSteps(one.step, one.step + max(one.steps, 1) - 1, True)
    ends = steps.on_host[1]
    before, after = (
        int(np.searchsorted(ends, moment - base_ns, side="right"))
        for moment in (one.begin, one.end)
    )
    return BurstSteps(before + 1, max(after, before + 1), after - before == one.steps)
