"""What the host does while the device is idle for no recorded reason."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.partition.nesting import Nesting
from whyidle.model.cause import MOSTLY
from whyidle.model.timeline import HostKind

MOMENTS = 400
"""evenly spaced moments of the unexplained time that are looked up"""


def describe_unexplained(facts: Facts) -> str:
    """Say how much of the time has no recorded work of the device, and what the threads that feed
    it do meanwhile."""
    device, idle = facts.device_noun, f"{1.0 - facts.attribution['compute']:.0%}"
    if facts.bucket_share("contradiction") <= facts.bucket_share("unseen"):
        return (
            f"The {device} is idle {idle} of the time, and the recording does not show why: "
            "nothing is recorded on the host meanwhile"
        )
    waits = facts.time_of("contradiction")
    times = np.linspace(0, waits.total - 1, MOMENTS).astype(np.int64)
    before = np.cumsum(waits.length) - waits.length
    piece = np.searchsorted(before, times, side="right") - 1
    calls, found = _calls_at(facts, waits.start[piece] + times - before[piece]), Counter[str]()
    found.update(call for call in calls if call)
    call, count = next(iter(found.most_common(1)), ("", 0))
    named = f" in {call}" if count > MOSTLY * MOMENTS else ""
    share = f"{facts.share_of(waits):.0%}"
    return (
        f"The CPU waits for the {device}{named} {share} of the time without any recorded work of "
        f"the {device}: its kernels are missing, or it waits for other ranks"
    )


def _calls_at(facts: Facts, times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    """The innermost runtime call at each time with the operator around it."""
    host, names = facts.timeline.host, facts.timeline.names
    texts = [""] * len(times)
    for thread in facts.host.drivers:
        for kind, form in ((HostKind.RUNTIME, "{}"), (HostKind.OP, "{} of {}")):
            rows = np.flatnonzero((host.thread == thread) & (host.kind == kind))
            inner = Nesting.nest_events(host.start[rows], host.end[rows]).innermost_at(times)
            for i in np.flatnonzero(inner >= 0):
                name = names[host.name[rows[inner[i]]]]
                if kind is HostKind.RUNTIME:
                    texts[i] = name
                elif texts[i]:
                    texts[i] = form.format(texts[i].partition(" of ")[0], name)
    return texts
