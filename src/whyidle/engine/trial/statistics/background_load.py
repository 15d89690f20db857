"""Other programs that took the machine's cores while arms ran.

What is measured while somebody else computes says as much of them as of the fix. Pairs in turned
order bear what comes and goes; they do not bear what came just while the fix ran. So the cores that
were busy without the job are told for each arm, and those with the fix are held against those
without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import psutil

from whyidle.engine.trial.arms.arm import ArmResult
from whyidle.engine.trial.arms.process_tree import others_cores

MUCH = 0.15
"""of the machine's cores: others that take so many more while the fix runs may be why it is slower.
Two threads of one core gave a job between 1 and 0.51 times its speed when one of them was taken;
what an idle machine does by itself stays under a twentieth"""


def compare_load(
    bases: Sequence[ArmResult], treats: Sequence[ArmResult], cores: int | None = None
) -> str:
    """That others took more of the machine with the fix than without it, in half a sentence; empty
    where they did not, or nobody knows. ``cores`` is how many the machine has."""
    without, with_it = _mean_load(bases), _mean_load(treats)
    have = cores or psutil.cpu_count() or 1
    if without is None or with_it is None or with_it - without < MUCH * have:
        return ""
    return (
        f"other programs took {with_it:.1f} of the machine's {have} cores while it was tried, "
        f"{without:.1f} while the job ran without it"
    )


def common_load(rans: Sequence[ArmResult], cores: int | None = None) -> str:
    """That others took much of the machine in all arms alike, as a sentence; empty where they did
    not, or nobody knows: no arm is wronged by that, and all of them scatter."""
    taken, have = _mean_load(rans), cores or psutil.cpu_count() or 1
    if taken is None or taken < MUCH * have:
        return ""
    return (
        f"While fixes were tried, other programs took {taken:.1f} of the machine's {have} cores, "
        "so that arms scatter and gains are hard to tell: try it again when the machine is quiet."
    )


def _mean_load(rans: Sequence[ArmResult]) -> float | None:
    found = [
        taken
        for ran in rans
        if ran.told is not None and len(ran.told.marks) > 1
        if (taken := others_cores(ran.samples, ran.told.marks[0], ran.told.marks[-1])) is not None
    ]
    return fmean(found) if found else None
