"""How long a step waited for its batch where Python sees nothing of it: inside a traced function.

tf.data's own model of an iterator keeps the last times between two requests for a batch, which are
what the consumer did. A call requests its batch when it begins, so

    wait of a call = begin of the next call - its begin - the time until the next request.

The model is read on the sampler's thread about once a second. Its operation came with TensorFlow
2.18, and there is no model where the job, or Keras for a PyDataset with several workers, has
switched tf.data's tuning off. The times at which a PyDataset gave its batches tell the waits then;
otherwise they are unknown, and nothing is recorded.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.listener import Listener
from ...core.recorder import ANNOTATION, OP, OPTIMIZER
from ..keras_datasets import Delivery, PyDatasets
from .pipelines import Pipelines

MOST_READINGS = 4
"""iterators that were replaced and are still kept: each keeps its buffers alive"""
KEPT = 2
"""readings of the model without a call in between, after which an iterator is let go"""
INPUT = "tf.data: next batch"
Call = tuple[int, int]


class Reading:
    """The calls that take their batches from one iterator."""

    def __init__(self, iterator: Any) -> None:
        self.iterator: Any = iterator
        self.calls: deque[Call] = deque()
        self.begun = 0
        """calls whose waits are known"""
        self.quiet = 0
        self.taken = 0
        """batches"""
        self.joined = False
        """whether several steps are one call, so that nobody knows where each began"""
        self.delivery: Delivery | None = None
        """the batches of a PyDataset"""


class InputWaits(Listener):
    """Finds the waits of all iterators that traced functions read from."""

    listener = "tf.data"

    def __init__(self, events: Events, pipelines: Pipelines) -> None:
        self.events, self.pipelines = events, pipelines
        self.datasets = PyDatasets(events, "tensorflow")
        self.readings: list[Reading] = []
        self.resolving = threading.Lock()
        self.kinds: dict[type, bool] = {}
        """class of a first argument -> whether it is an iterator"""
        self.gap_ns: float | None = None
        """mean time between requests, by the last model that reported it"""
        self.work_ns: float | None = None
        """mean time of a call without its wait"""

    def reading_of(self, args: tuple[Any, ...], consumer: str) -> Reading | None:
        """Return the reading of the iterator that is the first argument of a call of ``consumer``,
        if it is one."""
        first = args[0] if args else None
        last = self.readings[-1] if self.readings else None
        if last is not None and last.iterator is first:
            return last
        kind = type(first)
        reads = self.kinds.get(kind)
        if reads is None:  # of the class: a tensor takes microseconds to say that it lacks a name
            reads = self.kinds[kind] = hasattr(kind, "element_spec") and hasattr(kind, "get_next")
        if not reads:
            return None
        if len(self.readings) > MOST_READINGS:
            self.readings[0].iterator = None
        self.readings.append(made := Reading(first))
        self.pipelines.note_iterator(first, consumer)
        return made

    def on_chore(self) -> None:
        """Find the waits of the calls since the last time."""
        with self.resolving:
            self.pipelines.read_current()
            while self.readings:
                reading = self.readings[0]
                self._resolve(reading, last=len(self.readings) > 1)
                if len(self.readings) == 1:
                    break
                self.readings.pop(0)

    def release_iterators(self) -> None:
        """Find the rest, and keep no iterator alive: one that runs Python in another thread when
        the interpreter ends would keep the process from ending."""
        # the sampler's look at the models takes milliseconds
        if not self.resolving.acquire(timeout=1.0):
            return
        try:
            for reading in self.readings:
                self._resolve(reading, last=True)
            self.readings.clear()
            self.pipelines.current = None
        finally:
            self.resolving.release()

    on_process_end = stop_listening = release_iterators

    def _resolve(self, reading: Reading, *, last: bool) -> None:
        calls = [reading.calls.popleft() for _ in range(len(reading.calls))]
        if not calls:
            reading.quiet += 1
            if reading.quiet > KEPT:
                reading.iterator = None
            return
        reading.quiet = 0
        if not reading.begun:
            reading.delivery = self.datasets.find_delivery(calls[0])
        model = self.pipelines.read_model(reading.iterator)
        if model is None and reading.delivery is not None and not reading.joined:
            self.record_waits(reading.delivery.find_waits(calls, reading.begun), calls)
            reading.begun += len(calls)
            return
        gaps = [] if model is None else [gap * 1000 for gap in model.gap_times]
        elements = 0 if model is None else self.pipelines.count_elements(model)
        if not last:
            reading.calls.appendleft(calls[-1])
        waits = find_waits(calls, gaps, elements, reading.begun, self.gap_ns)
        rests = [end - begin - wait for wait, (begin, end) in zip(waits, calls, strict=False)]
        if rests:
            self.work_ns = max(0.0, sum(rests) / len(rests))
        if last and self.work_ns is not None:  # the end of the last one's time is unknown
            begin, end = calls[-1]
            waits.append(max(0, int(end - begin - self.work_ns)))
        self.record_waits(waits, calls)
        if gaps:
            self.gap_ns = sum(gaps) / len(gaps) * max(1.0, elements / (reading.begun + len(calls)))
        reading.begun += len(calls) - (not last)

    def record_waits(self, waits: Sequence[int], calls: Sequence[Call]) -> None:
        """Record the parts of calls in which they waited, and in which they computed."""
        recorder, thread = self.events.recorder, self.events.home
        batch = recorder.name_number(INPUT, wire.BATCH_FROM_ITERATOR)
        work = recorder.name_number(OPTIMIZER, wire.OPTIMIZER_OPERATORS)
        for wait, (begin, end) in zip(waits, calls, strict=False):
            ready = min(begin + wait, end)
            recorder.add((begin, ready, thread, batch, ANNOTATION))
            recorder.add((ready, end, thread, work, OP))
            self.events.waited += ready - begin


def find_waits(
    calls: Sequence[Call], gaps: Sequence[int], elements: int, before: int, usual: float | None
) -> list[int]:
    """Return the wait of each call but the last, ns; empty where it is unknown.

    ``gaps`` are the last times between two requests (ns), ``elements`` the batches so far,
    ``before`` the number of earlier calls, ``usual`` the mean time between the requests of a call.
    """
    if not gaps and usual is None:
        return []
    periods = [after[0] - now[0] for now, after in pairwise(calls)]
    each = max(1, round(elements / max(before + len(calls), 1)))
    mean = usual if usual is not None and not gaps else each * sum(gaps) / max(len(gaps), 1)
    if each > 1 or len(gaps) < 2:
        return [max(0, int(period - mean)) for period in periods]
    matched = _match_gaps(periods, gaps, before + len(calls) - 1)
    rest = len(periods) - len(matched)
    own = [mean] * rest + list(matched)
    return [max(0, int(period - gap)) for period, gap in zip(periods, own, strict=True)]


def _match_gaps(periods: Sequence[int], gaps: Sequence[int], ended: int) -> Sequence[int]:
    """The gaps of the last periods; ``ended`` periods are over in all. The request of the call that
    runs now may have been noted or not: while all gaps are kept, their number tells; later a gap is
    never longer than its period, so the fit decides."""
    # tf.data keeps the last 100
    if len(gaps) < 100:
        return gaps[: min(len(gaps), ended)][-len(periods) :] if periods else []

    def excess(own: Sequence[int]) -> int:
        pairs = zip(reversed(own), reversed(periods), strict=False)
        return sum(max(0, gap - period) for gap, period in pairs)

    choices = (gaps[:-1][-len(periods) :], gaps[-len(periods) :])
    return min(choices, key=excess) if periods else []
