"""CPU load of other programs while arms ran.

Pairs in alternating order cancel slow changes of the load, but not a load that coincides with the
arms of the fix. The cores used by other programs are therefore compared between both kinds of arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import psutil

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_tree import others_cores

MUCH = 0.15
"""share of the machine's cores from which additional load may explain a slow-down: a job on two
threads of one core ran at 0.51 to 1 times its speed when one was taken; an idle machine uses less
than 0.05 itself"""


def compare_load(bases: Sequence[ArmResult], treats: Sequence[ArmResult]) -> str:
    """Describe a higher load in arms with the fix, as half a sentence; empty if there was none or
    it is unknown."""
    without, with_it = _mean_load(bases), _mean_load(treats)
    have = psutil.cpu_count() or 1
    if without is None or with_it is None or with_it - without < MUCH * have:
        return ""
    return (
        f"other programs used {with_it:.1f} of the machine's {have} cores during the runs with "
        f"it,  "
        f"{without:.1f} during those without it"
    )


def common_load(arms: Sequence[ArmResult]) -> str:
    """Describe a high load in all arms, as a sentence; empty if there was none or it is unknown.
    It favours no arm, but increases the scatter."""
    taken, have = _mean_load(arms), psutil.cpu_count() or 1
    if taken is None or taken < MUCH * have:
        return ""
    return (
        f"During the trials, other programs used {taken:.1f} of the machine's {have} cores, which "
        "makes step times vary and gains hard to prove: try again when the machine is idle."
    )


def _mean_load(arms: Sequence[ArmResult]) -> float | None:
    found = [
        taken
        for ran in arms
        if ran.report is not None and len(ran.report.marks) > 1
        if (taken := others_cores(ran.samples, ran.report.marks[0], ran.report.marks[-1]))
        is not None
    ]
    return fmean(found) if found else None
