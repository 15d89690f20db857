"""Where a framework's hooks report what happens, and where the rest of the probe listens.

A framework's adapter installs hooks; the hooks report to the one ``Events`` of the process: a batch
was requested or is ready, a backward pass ran, an optimizer has stepped. ``Events`` turns that into
spans and passes it on to *listeners*, which it knows only by their methods. It imports none of
them, and no framework.

Hooks of every step have one fast way past all that: what they read lies side by side in slots
(``HotSlots``), and ``add`` puts three numbers into the recorder's queue. They take the other way
while ``careful`` is set or ``due`` is reached, which listeners ask for by ``wants_detail`` and
``wants_steps``.
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
from . import containment
from .hook_registry import Framework, HookRegistry
from .recorder import ANNOTATION, OP, STEP, Recorder, Short, clock_ns, name_tag
from .sampler import Sampler

thread = threading.get_ident

LOOKS = (1, 10, 30, 100, 300, 1000, 3000, 10_000, sys.maxsize)
"""steps after which listeners look at the training thread"""
MOST_OTHERS = 50
"""steps of other optimizers without one of the lead, after which it is given up"""
MOST_TEXT = 200
"""characters of an error that are kept"""
BACKWARDS = 3
"""after so many backward passes a process trains, even if no optimizer is seen"""


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
        self.ends: deque[int] = deque(maxlen=512)
        """when the last steps of the lead ended, as far as they were written, ns"""
        recorder.heard, recorder.ended = self._on_written, self._on_recording_end
        self.planned = 1
        """the step after which something is to be done, and ``due`` if nothing comes before"""
        self.full: Callable[[], None] | None = None
        """what is to be done then, beside looking"""
        self.optimizers: dict[int, str] = {}
        self.others = (0, 0, 0)
        """how many steps others took, how many the lead had before the last of them, and how many
        of them came since its last one"""
        self.numbers: dict[int | str | type, int] = {}
        """of names: an optimizer's by its id, iterators' by their class"""
        self.backwards = 0
        self.sampler: Sampler | None = None
        self.batches: set[int] = set()
        """tags of batches"""
        self.waited = 0
        """ns in which the training thread waited for batches, as far as they were written"""
        self.live_facts: dict[str, Callable[[], Any]] = {}
        """facts that are read again now and then while the process trains"""
        self.recording_operators: Callable[[], bool] = bool
        """whether every operator is being recorded at this moment"""
        self.asks = None
        self._reset_state()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_state(self) -> None:
        """Nothing was seen yet."""
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
        """Look whether there still is. On the thread that trains."""
        careful, often = not self.steps, False
        for one in self.listeners:
            careful = careful or one.wants_detail
            often = often or one.wants_steps
        self.careful, self.due = careful, 0 if often else self.planned

    # -- spans --------------------------------------------------------------------------------

    def add_span(self, role: str, label: str, kind: int, begin: int) -> None:
        """Record what ends now."""
        self._add_numbered_span(self.recorder.name_number(label, role), kind, begin)

    def _add_numbered_span(self, number: int, kind: int, begin: int) -> None:
        """The same, where the number of the name is known."""
        span = (
            begin,
            clock_ns(),
            thread(),
            number,
            kind,
        )  # first: a flush in between takes ``add``
        self.recorder.add(span)

    def _on_written(self, spans: list[Short]) -> None:
        """These spans of the home thread are being written, by the thread that does."""
        self.ends.extend([end for what, _, end in spans if what == self.named])
        self.waited += sum(end - begin for what, begin, end in spans if what in self.batches)

    def _on_recording_end(self) -> None:
        """Nothing is recorded any more: not even in memory."""
        self.add = _keep_nothing

    # -- what hooks report --------------------------------------------------------------------

    def batch_taken(self, kind: type, begin: int) -> None:
        """An iterator of this class has handed over a batch now."""
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
        """A backward pass ends now, and somebody may want to hear of it."""
        self.add_span(wire.BACKWARD, self.framework.backward_label, OP, begin)
        self.notify("on_backward_end", begin)
        if not self.steps:
            self.backwards += 1
            if self.backwards == BACKWARDS:
                self.start_reporting(None)  # its optimizer is none of the framework's
        self.update_careful()

    def number_optimizer(self, optimizer: Any) -> int:
        """The number of the name of an optimizer's steps. Those that take turns are told apart."""
        label = self.optimizers.get(id(optimizer))
        if label is None:
            kind = self.framework.name_optimizer(optimizer)
            same = sum(known.startswith(kind) for known in self.optimizers.values())
            label = self.optimizers[id(optimizer)] = f"{kind} ({same + 1})" if same else kind
            self.notify("on_optimizer", label, optimizer)
        number = self.recorder.name_number(label, wire.OPTIMIZER)
        return self.numbers.setdefault(id(optimizer), number)

    def other_stepped(self, optimizer: Any, begin: int, end: int) -> None:
        """Not the lead has stepped, or not on the home thread."""
        number = self.numbers.get(id(optimizer))
        if number is None:
            number = self.number_optimizer(optimizer)
        if id(optimizer) != self.lead:
            self._not_lead(optimizer, number)
        self.recorder.add((begin, end, thread(), number, STEP))

    def _not_lead(self, optimizer: Any, number: int) -> None:
        """It becomes the lead where there is none, or none any more."""
        others, before, count = self.others
        of_lead = self.steps - others
        count = count + 1 if of_lead == before else 1
        self.others = (others + 1, of_lead, count)
        if self.lead is None or count > MOST_OTHERS:  # the job has made a new one
            self.named = name_tag(number, STEP)
            self.lead = id(optimizer)

    def step_skipped(self, optimizer: Any, begin: int) -> None:
        """A step of an optimizer that was left out ends now: a step all the same."""
        self._add_numbered_span(self.number_optimizer(optimizer), ANNOTATION, begin)
        self.steps += 1
        if self.steps >= self.planned:
            self._run_due_work(optimizer)

    def step_marked(self) -> None:
        """The user says that a step ends here."""
        self.add_span(wire.STEP_MARKED, "whyidle.step", ANNOTATION, clock_ns())
        self.steps += 1
        self.start_reporting(None)
        self.notify("on_step", None)
        self.update_careful()

    def attend_step(self, optimizer: Any) -> None:
        """It has stepped, and there may be more to do than to record that."""
        if self.steps >= self.planned:
            self._run_due_work(optimizer)
        self.notify("on_step", optimizer)
        self.update_careful()

    def _run_due_work(self, optimizer: Any) -> None:
        """After the first step, and some later ones."""
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
        """Have something done so many steps from now, or before."""
        self.full, self.planned = work, min(self.planned, self.steps + steps)
        self.due = min(self.due, self.planned)

    def note_tracing(self) -> None:
        """From now on the framework may trace this process, or would not say so if it did."""
        self.asks = self.framework.is_tracing

    # -- the life of the process --------------------------------------------------------------

    def start_reporting(self, optimizer: Any) -> None:
        """From now on this process reports."""
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
        """Look at what this thread does from now on."""
        if self.sampler is None:
            # what another thread wants can be missed, but not for long
            chores = (lambda: self.notify("on_chore"), self.be_careful)
            self.sampler = Sampler(self.recorder, thread(), chores, self._tell_presence)
            if self.heard["on_sample"]:
                self.sampler.looking = lambda: self.notify("on_sample")
            self.sampler.start()

    def _tell_presence(self) -> None:
        """Tell of a process that has the framework and does not train, once."""
        recorder = self.recorder
        if recorder.presence or recorder.facts or "worker.json" in recorder.documents:
            return
        try:
            found = self.framework.describe_process()
        except Exception as error:  # contained: nothing is told of it
            self.remove_faulty("presence", error)
            return
        if found is not None:
            recorder.presence = {**found, "thread": threading.main_thread().ident}

    def finish_recording(self, *, dying: bool = True) -> None:
        """The process ends: nothing of ours may run while its interpreter falls apart. Or, where it
        is not ``dying``, the recording ends before it."""
        containment.run_contained(self.recorder.folder, "the end", lambda: self._write_rest(dying))

    def _write_rest(self, dying: bool) -> None:
        if "gc" in self.undo:
            self.undo.pop("gc")()
        if "burst" in self.undo:
            containment.run_contained(self.recorder.folder, "burst", self.undo["burst"])
        sampler, self.sampler = self.sampler, None
        if sampler is not None and not sampler.stop():
            return  # it hangs in a write, and so would we
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
        """Have a child of ``multiprocessing`` finish: forked ones run no ``atexit``."""
        multiprocessing.util.Finalize(None, self.finish_recording, exitpriority=10)


def _died_of() -> ProcessFacts:
    """The exception that ends the program, once Python has printed it."""
    kind = getattr(sys, "last_type", None)
    if kind is None:
        return {}
    first = str(getattr(sys, "last_value", "")).partition("\n")[0]
    return {"died_of": f"{kind.__name__}: {first}"[:MOST_TEXT]}


def _keep_nothing(span: Short) -> None:
    """In the place of what keeps it."""
