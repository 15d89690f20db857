"""What surrounds the training loop of a watched process: its start-up, and idleness at its end.

Time before the loop, and time in which the process only waits after it, become spans of their own
(``STARTUP``, ``AFTER``) where they are long enough for anybody to wait for. The import of the
framework itself lies before all of it: until then nothing of ours runs. Imports after it are no
reason to tell of a start-up: hardly anything can be done about them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import HostKind

Rows = NDArray[Any]
Waiting = Callable[[Rows, NDArray[np.int64]], NDArray[np.bool_]]

STARTUP, AFTER = "whyidle::startup", "whyidle::after"
LEAST_NS = 3_000_000_000
"""less than this, but for imports, is what every process takes to begin and to end"""
IDLE = 0.8
"""share of the looks after the loop that must find the process waiting; else it works"""
FIRST_NS, FIRST_TIMES = 1_000_000_000, 5
"""a first batch that takes this long, and so many times the median of the others, is start-up"""
_LOOP = re.compile(
    r"^(enumerate\(DataLoader\)|whyidle::(backward|compile)|Optimizer\.step#|whyidle\.step)"
)
_BATCH = re.compile(r"^enumerate\(DataLoader\)")
_IMPORT = "<frozen importlib._bootstrap>"
_NO_WORK = re.compile(r"^(Python GC|gc\.collect)")


@dataclass(frozen=True, slots=True)
class Around:
    """Where the loop lies in the life of its process, ns on the records' clock. ``startup`` and
    ``after`` are (begin, end), None where there is nothing to tell."""

    begin: int
    startup: tuple[int, int] | None
    after: tuple[int, int] | None
    told: Mapping[str, float | None]

    def spans(self, names: list[str], thread: int, layout: np.dtype[Any]) -> Rows:
        """Start-up and end as spans; their names are added to ``names``."""
        found = [(STARTUP, self.startup), (AFTER, self.after)]
        rows = [(name, part) for name, part in found if part is not None]
        spans = np.zeros(len(rows), layout)
        for row, (name, (start, end)) in enumerate(rows):
            spans[row]["start"], spans[row]["end"] = start, end
            spans[row]["thread"], spans[row]["kind"] = thread, HostKind.ANNOTATION
            spans[row]["name"] = len(names)
            names.append(name)
        return spans


def around(
    spans: Rows,
    samples: Rows,
    names: list[str],
    facts: Mapping[str, Any],
    waiting: Waiting,
    *,
    stacks: list[str],
) -> Around | None:
    """None where no call of a loop was recorded.

    Args:
        spans: every recorded call of the process.
        samples: every look at its threads.
        names: texts of the spans' names.
        facts: what the process said of itself.
        waiting: tells samples, at times, of a thread that waited.
        stacks: texts of the samples' stacks.
    """
    loop = spans[_named(spans, names, _LOOP)]
    if not len(loop):
        return None
    begin = int(loop["start"].min())
    importing = _importing(samples, stacks, facts)
    startup = _startup(loop, names, facts, begin, importing)
    after = _after(spans[~_named(spans, names, _NO_WORK)], samples, facts, waiting)
    ends = [int(part.max()) for part in (spans["end"], samples["time"]) if len(part)]
    last = int(facts.get("ended") or max(ends))
    start, imported = facts.get("process_start"), facts.get("imported")
    return Around(
        begin=startup[0] if startup else begin,
        startup=startup,
        after=after,
        told={
            "import_s": _seconds(start, imported),
            "startup_s": _seconds(*startup) if startup else None,
            "importing_s": importing(startup[1]) / 1e9 if startup else None,
            "after_s": _seconds(*after) if after else None,
            "life_s": _seconds(start, last),
        },
    )


def _importing(samples: Rows, stacks: list[str], facts: Mapping[str, Any]) -> Callable[[int], int]:
    """Tells how many ns up to some moment the training thread was inside import statements."""
    looks = samples[samples["thread"] == np.uint64(facts.get("thread") or 0)]
    looks = looks[np.argsort(looks["time"], kind="stable")]
    known = np.array([_IMPORT in stack for stack in stacks], dtype=bool)
    begins = looks["time"].astype(np.int64)
    inside = known[looks["stack"]]

    def until(moment: int) -> int:
        ends = np.append(begins[1:], moment)
        return int(np.clip(np.minimum(ends, moment) - begins, 0, None)[inside].sum())

    return until


def _startup(
    loop: Rows,
    names: list[str],
    facts: Mapping[str, Any],
    begin: int,
    importing: Callable[[int], int],
) -> tuple[int, int] | None:
    imported, first = facts.get("imported"), facts.get("first_step")
    if not isinstance(imported, int) or not isinstance(first, int) or begin > first:
        return None  # the end of a longer recording
    end = begin
    waits = np.sort(loop[_named(loop, names, _BATCH)], order="start")
    took = (waits["end"] - waits["start"]).astype(np.int64)
    late = len(took) > 3 and took[0] > max(FIRST_NS, FIRST_TIMES * np.median(took[1:]))
    if late and waits["start"][0] == begin:
        end = int(waits["end"][0])
    return (imported, end) if end - imported - importing(end) >= LEAST_NS else None


def _after(
    spans: Rows, samples: Rows, facts: Mapping[str, Any], waiting: Waiting
) -> tuple[int, int] | None:
    """From the last recorded call on, if the training thread then only waits."""
    begin = int(spans["end"].max())
    mine = samples["thread"] == np.uint64(facts.get("thread") or 0)
    looks = samples[mine & (samples["time"] > begin)]
    end = int(facts.get("ended") or (looks["time"].max() if len(looks) else begin))
    if end - begin < LEAST_NS or len(looks) < 2:
        return None
    looks = looks[np.argsort(looks["time"], kind="stable")]
    idle = waiting(looks, looks["time"].astype(np.int64)).mean() >= IDLE
    return (begin, end) if idle else None


def _named(spans: Rows, names: list[str], pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    known = np.array([bool(pattern.match(name)) for name in names], dtype=bool)
    found: NDArray[np.bool_] = known[spans["name"]]
    return found


def _seconds(begin: object, end: object) -> float | None:
    if not isinstance(begin, int) or not isinstance(end, int):
        return None
    return max(0, end - begin) / 1e9
