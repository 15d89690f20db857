"""What surrounds the training loop of a watched process: its start-up, and an idle tail.

Time before the loop, and time in which the process only waits after it, become spans of their own
(``STARTUP``, ``AFTER``) where they are long enough for anybody to wait for. The import of the
framework itself lies before all of it: until then nothing of ours runs. Imports after it are no
reason to report a start-up: hardly anything can be done about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.sampling.thread_idleness import find_idle
from whyidle.model.process_facts import LifePhases
from whyidle.model.roles import Role
from whyidle.model.timeline import HostEvents, HostKind, Timeline

STARTUP, AFTER = "whyidle::startup", "whyidle::after"
LEAST_NS = 3_000_000_000
"""less than this, but for imports, is what every process takes to begin and to end"""
IDLE = 0.8
"""share of the samples after the loop that must find the process waiting; else it works"""
FIRST_NS, FIRST_TIMES = 1_000_000_000, 5
"""a first batch that takes this long, and so many times the median of the others, is start-up"""
_LOOP = (Role.BATCH_REQUEST, Role.BACKWARD, Role.COMPILER, Role.OPTIMIZER, Role.STEP_MARKED)
_IMPORT = "<frozen importlib._bootstrap>"
_MOMENTS = ("process_start", "imported", "first_step", "ended")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the loop lies in the life of its process, ns on the timeline's clock. ``startup`` and
    ``after`` are (begin, end), None where nothing is to be told; ``phases`` are their lengths."""

    begin: int
    startup: tuple[int, int] | None
    after: tuple[int, int] | None
    phases: LifePhases

    def host_events(self, names: list[str], thread: int) -> HostEvents:
        """Start-up and end as host events; their names are added to ``names``."""
        found = [(STARTUP, self.startup), (AFTER, self.after)]
        rows = [(name, part) for name, part in found if part is not None]
        names += [name for name, _ in rows]
        start, end = np.array([part for _, part in rows], np.int64).reshape(-1, 2).T
        name = np.arange(len(names) - len(rows), len(names))
        return HostEvents.of(start, end, kind=HostKind.ANNOTATION, name=name, thread=thread)


def find_surroundings(
    timeline: Timeline, samples: NDArray[Any], stacks: Sequence[str], thread: int
) -> Surroundings | None:
    """None where no call of a loop was recorded.

    Args:
        timeline: every recorded call of the process, and what it said of itself.
        samples: every sample of its threads.
        stacks: texts of the samples' stacks.
        thread: the training thread, as calls and samples number it.
    """
    calls, base_ns = timeline.host, timeline.base_ns
    loop = calls.take_rows(timeline.playing(calls, *_LOOP))
    if not len(loop):
        return None
    told = {name: _moment_ns(getattr(timeline.process, name), base_ns) for name in _MOMENTS}
    begin = int(loop.start.min())
    mine = samples[samples["thread"] == thread]
    mine = mine[np.argsort(mine["time"], kind="stable")]
    importing = _measure_imports(mine, stacks)
    waits = loop.take_rows(timeline.playing(loop, Role.BATCH_REQUEST))
    startup = _find_startup(waits, told, begin, importing)
    after = _find_tail(calls.take_rows(~timeline.playing(calls, Role.GC)), mine, told["ended"])
    ends = [int(part.max()) for part in (calls.end, samples["time"]) if len(part)]
    last = max(ends) if told["ended"] is None else told["ended"]
    return Surroundings(
        begin=startup[0] if startup else begin,
        startup=startup,
        after=after,
        phases=LifePhases(
            import_s=_elapsed_s(told["process_start"], told["imported"]),
            startup_s=_elapsed_s(*startup) if startup else None,
            importing_s=importing(startup[1]) / 1e9 if startup else None,
            after_s=_elapsed_s(*after) if after else None,
            life_s=_elapsed_s(told["process_start"], last),
        ),
    )


def _moment_ns(told: int | None, base_ns: int) -> int | None:
    """A moment of the process's facts on the timeline's clock; None where it was not told."""
    return told - base_ns if told else None


def _measure_imports(samples: NDArray[Any], stacks: Sequence[str]) -> Callable[[int], int]:
    """Returns how many ns up to some moment the training thread was inside import statements."""
    known = np.array([_IMPORT in stack for stack in stacks], dtype=bool)
    begins = samples["time"]
    inside = known[samples["stack"]]

    def until(moment: int) -> int:
        ends = np.append(begins[1:], moment)
        return int(np.clip(np.minimum(ends, moment) - begins, 0, None)[inside].sum())

    return until


def _find_startup(
    waits: HostEvents, told: Mapping[str, int | None], begin: int, importing: Callable[[int], int]
) -> tuple[int, int] | None:
    imported, first = told["imported"], told["first_step"]
    if imported is None or first is None or begin > first:
        return None  # the end of a longer recording
    end = begin
    took = waits.end - waits.start
    late = len(took) > 3 and took[0] > max(FIRST_NS, FIRST_TIMES * np.median(took[1:]))
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
