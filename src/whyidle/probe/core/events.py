"""Where a framework's hooks report what happens, and where the rest of the probe listens.

A framework's adapter installs hooks; the hooks report to the one ``Events`` of the process: a batch
was requested or is ready, a backward pass ran, an optimizer has stepped. ``Events`` turns that into
spans and passes it on to *listeners*, which it knows only by their methods. It imports none of
them, and no framework.

Hooks that run in every step have a fast path: what they read lies in adjacent slots (``HotSlots``),
and ``add`` puts three numbers into the recorder's queue. They take the slow path while ``careful``
is set or ``due`` is reached; listeners request it with ``wants_detail`` and ``wants_steps``.
"""

from __future__ import annotations

import multiprocessing.util
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from .. import wire
from ..wire import ProcessFacts
from . import fault_containment
from .hook_registry import Framework, HookRegistry
from .recorder import ANNOTATION, OP, STEP, Recorder, Short, clock_ns, name_tag
from .sampler import Sampler

thread = threading.get_ident

LOOKS = (1, 10, 30, 100, 300, 1000, 3000, 10_000, sys.maxsize)
"""step counts after which listeners inspect the training thread"""
MOST_OTHERS = 50
"""consecutive steps of other optimizers after which the lead is replaced"""
BACKWARDS = 3
"""backward passes after which a process counts as training even without an optimizer"""


class Events(HookRegistry):
    """What the hooks of one process report to."""

    __slots__ = (
        "backwards",
        "batches",
        "ends",
        "full",
        "imported",
        "live_facts",
        "looks",
        "numbers",
        "optimizers",
        "others",
        "planned",
        "recording_operators",
        "sampler",
        "waited",
    )

    def __init__(self, recorder: Recorder, framework: Framework) -> None:
        super().__init__(recorder, framework)
        self.imported = clock_ns()
        """when the framework had been imported, ns"""
        """whether the process trained before its recording began"""
        self.ends: deque[int] = deque(maxlen=512)
        """when the last written steps of the lead ended, ns"""
        recorder.heard, recorder.ended = self._on_written, self._on_recording_end
        self.planned = 1
        """the step after which work is due; ``due`` is the same unless work is due earlier"""
        self.full: Callable[[], None] | None = None
        """the work due at ``planned``, besides inspection"""
        self.optimizers: dict[int, str] = {}
        self.others = (0, 0, 0)
        """steps of other optimizers; steps of the lead before the last of them; steps of other
        optimizers since the lead's last step"""
        self.numbers: dict[int | str | type, int] = {}
        """name numbers: of optimizers by id, of iterators by class"""
        self.backwards = 0
        self.sampler: Sampler | None = None
        self.batches: set[int] = set()
        """tags of batches"""
        self.waited = 0
        """ns that the training thread waited for batches, counted when they are written"""
        self.live_facts: dict[str, Callable[[], Any]] = {}
        """facts that are refreshed about once a second while the process trains"""
        self.recording_operators: Callable[[], bool] = bool
        """whether every operator is being recorded now"""
        self.asks = None
        self._reset_state()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_state(self) -> None:
        self.add = self.recorder.short.extend
        self.steps = self.looks = self.backwards = self.batch = self.named = 0
        self.backward = name_tag(
            self.recorder.name_number(self.framework.backward_label, wire.BACKWARD), OP
        )
        self.planned = 1
        self.lead, self.iterator, self.others = None, None, (0, 0, 0)
        self.home = 0
        self.be_careful()

    def _reset_after_fork(self) -> None:
        self._reset_state()
        self.ends.clear()
        self.numbers.clear()
        self.batches.clear()
        self.sampler = None

    def update_careful(self) -> None:
        """Recompute ``careful`` and ``due``. Call on the training thread."""
        careful, often = not self.steps, False
        for listener in self.listeners:
            careful = careful or listener.wants_detail
            often = often or listener.wants_steps
        self.careful, self.due = careful, 0 if often else self.planned

    # -- spans --------------------------------------------------------------------------------

    def add_span(self, role: str, label: str, kind: int, begin: int) -> None:
        """Record a span that ends now."""
        self._add_numbered_span(self.recorder.name_number(label, role), kind, begin)

    def _add_numbered_span(self, number: int, kind: int, begin: int) -> None:
        span = (begin, clock_ns(), thread(), number, kind)  # before ``add``: a flush replaces it
        self.recorder.add(span)

    def _on_written(self, spans: list[Short]) -> None:
        """Note spans of the home thread; called on the thread that writes them."""
        self.ends.extend([end for what, _, end in spans if what == self.named])
        self.waited += sum(end - begin for what, begin, end in spans if what in self.batches)

    def _on_recording_end(self) -> None:
        self.add = _drop_span

    # -- what hooks report --------------------------------------------------------------------

    def batch_taken(self, kind: type, begin: int) -> None:
        """Record that an iterator of class ``kind`` has returned a batch."""
        number = self.numbers.get(kind)
        if number is None:
            role, label = self.framework.name_batch(kind)
            number = self.numbers[kind] = self.recorder.name_number(label, role)
        if thread() == self.home:
            self.batch = name_tag(number, ANNOTATION)
            self.batches.add(self.batch)
            self.iterator = kind
            self.add((self.batch, begin, clock_ns()))
        else:
            self._add_numbered_span(number, ANNOTATION, begin)

    def backward_ended(self, begin: int) -> None:
        """Record a backward pass that ends now and notify listeners."""
        self.add_span(wire.BACKWARD, self.framework.backward_label, OP, begin)
        self.notify("on_backward_end", begin)
        if not self.steps:
            self.backwards += 1
            if self.backwards == BACKWARDS:
                self.start_reporting(None)  # its optimizer is not one of the framework's
        self.update_careful()

    def number_optimizer(self, optimizer: Any) -> int:
        """Return the name number of an optimizer's steps; each optimizer has its own."""
        label = self.optimizers.get(id(optimizer))
        if label is None:
            kind = self.framework.name_optimizer(optimizer)
            same = sum(known.startswith(kind) for known in self.optimizers.values())
            label = self.optimizers[id(optimizer)] = f"{kind} ({same + 1})" if same else kind
            self.notify("on_optimizer", label, optimizer)
        number = self.recorder.name_number(label, wire.OPTIMIZER)
        return self.numbers.setdefault(id(optimizer), number)

    def other_stepped(self, optimizer: Any, begin: int, end: int, kind: int = STEP) -> None:
        """Record a step of another optimizer than the lead, or on another thread. ``kind`` is
        ``ANNOTATION`` where it is not all work."""
        number = self.numbers.get(id(optimizer))
        if number is None:
            number = self.number_optimizer(optimizer)
        if id(optimizer) != self.lead:
            self._not_lead(optimizer, name_tag(number, kind))
        self.recorder.add((begin, end, thread(), number, kind))

    def _not_lead(self, optimizer: Any, tag: int) -> None:
        """Make the optimizer the lead if there is none, or the lead no longer steps."""
        others, before, count = self.others
        of_lead = self.steps - others
        count = count + 1 if of_lead == before else 1
        self.others = (others + 1, of_lead, count)
        if self.lead is None or count > MOST_OTHERS:  # the job has made a new one
            self.named, self.lead = tag, id(optimizer)

    def step_skipped(self, optimizer: Any, begin: int) -> None:
        """Record a skipped optimizer step that ends now; it counts as a step."""
        self._add_numbered_span(self.number_optimizer(optimizer), ANNOTATION, begin)
        self.steps += 1
        if self.steps >= self.planned:
            self._run_due_work(optimizer)

    def step_marked(self) -> None:
        """Record the end of a step that the script marks."""
        self.add_span(wire.STEP_MARKED, "whyidle.step", ANNOTATION, clock_ns())
        self.steps += 1
        self.start_reporting(None)
        self.notify("on_step", None)
        self.update_careful()

    def attend_step(self, optimizer: Any) -> None:
        """Do the work due after a step of ``optimizer`` and notify listeners."""
        if self.steps >= self.planned:
            self._run_due_work(optimizer)
        self.notify("on_step", optimizer)
        self.update_careful()

    def _run_due_work(self, optimizer: Any) -> None:
        if self.steps >= LOOKS[self.looks]:
            self.looks += 1
            if self.steps == 1:
                self.start_reporting(optimizer)
            self.notify("on_look")
        full, self.full = self.full, None
        self.planned = LOOKS[self.looks]
        if full is not None:
            full()

    def call_later(self, steps: int, work: Callable[[], None]) -> None:
        """Schedule ``work`` at most ``steps`` steps from now."""
        self.full, self.planned = work, min(self.planned, self.steps + steps)
        self.due = min(self.due, self.planned)

    def note_tracing(self) -> None:
        """Check for tracing from now on: the framework's compiler may trace this process."""
        self.asks = self.framework.is_tracing

    # -- the life of the process --------------------------------------------------------------

    def start_reporting(self, optimizer: Any) -> None:
        """Begin to report this process as one that trains."""
        if self.recorder.facts:
            return
        self.watch_thread()
        self.home = thread()
        self.recorder.live_in(self.home)
        if self.sampler is not None:
            self.sampler.follow(self.home)
        self.recorder.facts = self.framework.describe_training(optimizer)
        self.notify("on_training_begin", optimizer)
        if multiprocessing.parent_process() is not None:
            self.finish_with_child()

    def watch_thread(self) -> None:
        """Sample the calling thread from now on."""
        if self.sampler is None:
            # a request from another thread can be missed, but only until the next chore
            chores = (lambda: self.notify("on_chore"), self.be_careful)
            self.sampler = Sampler(self.recorder, thread(), chores, self._tell_presence)
            if self.heard["on_sample"]:
                self.sampler.looking = lambda: self.notify("on_sample")
            self.sampler.start()

    def _tell_presence(self) -> None:
        """Describe a process that has imported the framework and does not train, once."""
        recorder = self.recorder
        if recorder.presence or recorder.facts or "worker.json" in recorder.documents:
            return
        try:
            facts = self.framework.describe_process()
        except Exception as error:  # contained: the process is not described
            self.remove_faulty("presence", error)
            return
        if facts is not None:
            recorder.presence = {**facts, "thread": threading.main_thread().ident}

    def finish_recording(self, *, dying: bool = True) -> None:
        """Stop sampling and write what waits. The probe must not run during interpreter shutdown.
        ``dying`` is False where the recording ends before the process."""
        fault_containment.run_contained(
            self.recorder.folder, "the end", lambda: self._write_rest(dying)
        )

    def _write_rest(self, dying: bool) -> None:
        if "gc" in self.undo:
            self.undo.pop("gc")()
        if "burst" in self.undo:
            fault_containment.run_contained(self.recorder.folder, "burst", self.undo["burst"])
        sampler, self.sampler = self.sampler, None
        if sampler is not None and not sampler.stop():
            return  # it hangs in a write, and a second write would hang too
        recorder = self.recorder
        if recorder.facts and not recorder.broken:
            self.notify("on_process_end")
            died = _died_of() if dying else {}
            recorder.facts = {**recorder.facts, "ended": clock_ns(), **died}
        elif sampler is not None:
            self._tell_presence()
            if recorder.presence:
                recorder.presence = {**recorder.presence, "ended": clock_ns(), **_died_of()}
        if recorder.facts or recorder.documents or recorder.presence:
            recorder.flush_records()
        recorder.end_recording()

    def finish_with_child(self) -> None:
        """Finish the recording of a ``multiprocessing`` child: forked ones run no ``atexit``."""
        multiprocessing.util.Finalize(None, self.finish_recording, exitpriority=10)


def _died_of() -> ProcessFacts:
    """Name the exception that ends the program, once Python has printed it."""
    kind = getattr(sys, "last_type", None)
    if kind is None:
        return {}
    first = str(getattr(sys, "last_value", "")).partition("\n")[0]
    return {"died_of": f"{kind.__name__}: {first}"[:200]}


def _drop_span(span: Short) -> None:
    """Drop a span after the recording has ended."""
