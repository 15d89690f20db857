"""In which order cases are run, and which of them side by side."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import Final

from clinic.card import Case, Mode

Job = tuple[Case, Mode]
ORDER: Final[tuple[Mode, ...]] = ("emulated", "gpu", "cpu", "recorded")
"""recordings last: they count in no number"""


def at_once() -> int:
    """How many run side by side, where nobody says otherwise: mostly they wait."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return cores + 1 if cores > 1 else 1


def turns(jobs: Sequence[Job], beside: int) -> Iterator[list[Job]]:
    """What runs together, in turn: those that may, ``beside`` each other; any other alone, since
    it would slow down what is timed. Within a mode the order is drawn, always the same: what is
    done when somebody stops it is a fair sample of the whole."""
    drawn = sorted(jobs, key=lambda job: job[0].id)
    random.Random(0).shuffle(drawn)
    for mode in ORDER:
        of_mode = [job for job in drawn if job[1] == mode]
        yield from _beside([job for job in of_mode if job[0].beside], beside)
        yield from ([job] for job in of_mode if not job[0].beside)


def _beside(jobs: Sequence[Job], count: int) -> Iterator[list[Job]]:
    yield from (list(jobs[first : first + count]) for first in range(0, len(jobs), count))


def worth(case: Case, beside: int) -> float:
    """What part of the machine's time a case takes up."""
    return 1 / beside if case.beside else 1.0
