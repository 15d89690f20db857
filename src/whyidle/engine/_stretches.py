"""Which steps of its run a burst is of, counted as the run's steps are.

The probe counts calls of optimizers, and records from one call to a later one of the same: where
several take turns, neither is what the diagnosis calls a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from whyidle.analysis.steps import Steps


class Stretch(NamedTuple):
    """Numbers of the first and the last step, from 1 on; ``alike`` is whether what was recorded as
    a step is one."""

    first: int
    last: int
    alike: bool

    @property
    def said(self) -> str:
        """For a sentence."""
        one = self.first == self.last
        return f"step {self.first}" if one else f"steps {self.first} to {self.last}"


def stretch(one: Mapping[str, Any], steps: Steps, base_ns: int) -> Stretch:
    """Of what the probe told of a burst. A recording that holds no steps, or a burst without its
    times, has the probe's own number."""
    count = int(one.get("steps") or 0)
    if steps.found_by is None or not one.get("end"):
        first = int(one.get("step") or 0)
        return Stretch(first, first + max(count, 1) - 1, True)
    ends = steps.on_host[1]
    before, after = (
        int(np.searchsorted(ends, int(one[side]) - base_ns, side="right"))
        for side in ("begin", "end")
    )
    return Stretch(before + 1, max(after, before + 1), after - before == count)
