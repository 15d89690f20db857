"""Start-up and idle tail of a watched process. Long time before the training loop, and long waiting
after it, become spans (``STARTUP``, ``AFTER``). The framework's own import precedes both, as
nothing of ours runs before it. Later imports are no reason to report a start-up, as little can be
done about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from whyidle.analysis.sampling.thread_idleness import find_idle
from whyidle.model.process_facts import LifePhases
from whyidle.model.roles import Role
from whyidle.model.timeline import HostEvents, HostKind, Timeline

STARTUP, AFTER = "whyidle::startup", "whyidle::after"
LEAST_NS = 3_000_000_000
"""shorter start-ups and tails, without imports, are normal"""
IDLE = 0.8
"""share of the samples after the loop that must find the process waiting"""
FIRST_NS, FIRST_TIMES = 1_000_000_000, 5
"""a first batch that takes this long, and this many times the median of the others, is start-up"""
_LOOP = (Role.BATCH_REQUEST, Role.BACKWARD, Role.COMPILER, Role.OPTIMIZER, Role.STEP_MARKED)
_IMPORT = "<frozen importlib._bootstrap>"
_MOMENTS = ("process_start", "imported", "first_step", "ended")


class Surroundings(Struct, frozen=True):
    """The loop within the life of its process, ns; ``startup`` and ``after`` are (begin, end)."""

    begin: int
    startup: tuple[int, int] | None
    after: tuple[int, int] | None
    phases: LifePhases

    def host_events(self, names: list[str], thread: int) -> HostEvents:
        """Return start-up and tail as host events; their names are added to ``names``."""
        parts = [(STARTUP, self.startup), (AFTER, self.after)]
        rows = [(name, part) for name, part in parts if part is not None]
        names += [name for name, _ in rows]
        start, end = np.array([part for _, part in rows], np.int64).reshape(-1, 2).T
        name = np.arange(len(names) - len(rows), len(names))
        return HostEvents.from_columns(
            start, end, kind=HostKind.ANNOTATION, name=name, thread=thread
        )


def find_surroundings(
    timeline: Timeline, samples: NDArray[Any], stacks: Sequence[str], thread: int
) -> Surroundings | None:
    """Return what surrounds the loop of the training ``thread``, by all its recorded calls and
    samples; None where no call of a loop was recorded."""
    calls, base_ns = timeline.host, timeline.base_ns
    loop = calls.take_rows(timeline.has_role(calls, *_LOOP))
    if not len(loop):
        return None
    times = {name: getattr(timeline.process, name) for name in _MOMENTS}
    moments = {name: time - base_ns if time else None for name, time in times.items()}
    begin = int(loop.start.min())
    own = samples[samples["thread"] == thread]
    own = own[np.argsort(own["time"], kind="stable")]
    importing = _measure_imports(own, stacks)
    waits = loop.take_rows(timeline.has_role(loop, Role.BATCH_REQUEST))
    startup = _find_startup(waits, moments, begin, importing)
    after = _find_tail(calls.take_rows(~timeline.has_role(calls, Role.GC)), own, moments["ended"])
    ends = [int(part.max()) for part in (calls.end, samples["time"]) if len(part)]
    last = max(ends) if moments["ended"] is None else moments["ended"]
    return Surroundings(
        begin=startup[0] if startup else begin,
        startup=startup,
        after=after,
        phases=LifePhases(
            import_s=_elapsed_s(moments["process_start"], moments["imported"]),
            startup_s=_elapsed_s(*startup) if startup else None,
            importing_s=importing(startup[1]) / 1e9 if startup else None,
            after_s=_elapsed_s(*after) if after else None,
            life_s=_elapsed_s(moments["process_start"], last),
        ),
    )


def _measure_imports(samples: NDArray[Any], stacks: Sequence[str]) -> Callable[[int], int]:
    known = np.array([_IMPORT in stack for stack in stacks], dtype=bool)
    begins = samples["time"]
    inside = known[samples["stack"]]

    def imported_before(moment: int) -> int:
        ends = np.append(begins[1:], moment)
        return int(np.clip(np.minimum(ends, moment) - begins, 0, None)[inside].sum())

    return imported_before


def _find_startup(
    waits: HostEvents,
    moments: Mapping[str, int | None],
    begin: int,
    importing: Callable[[int], int],
) -> tuple[int, int] | None:
    imported, first = moments["imported"], moments["first_step"]
    if imported is None or first is None or begin > first:
        return None  # the end of a longer recording
    end = begin
    lengths = waits.end - waits.start
    late = len(lengths) > 3 and lengths[0] > max(FIRST_NS, FIRST_TIMES * np.median(lengths[1:]))
    if late and waits.start[0] == begin:
        end = int(waits.end[0])
    return (imported, end) if end - imported - importing(end) >= LEAST_NS else None


def _find_tail(
    calls: HostEvents, samples: NDArray[Any], ended: int | None
) -> tuple[int, int] | None:
    """From the last recorded call on, if the training thread then only waits."""
    begin = int(calls.end.max())
    later = samples[samples["time"] > begin]
    last = int(later["time"].max()) if len(later) else begin
    end = last if ended is None else ended
    if end - begin < LEAST_NS or len(later) < 2:
        return None
    return (begin, end) if find_idle(later, later["time"]).mean() >= IDLE else None


def _elapsed_s(begin: int | None, end: int | None) -> float | None:
    return None if begin is None or end is None else max(0, end - begin) / 1e9
