"""``--look memory``: what holds memory, and what another batch would need.

After the third step one micro-batch is computed again, forward and backward, at its own size and at
twice that, with the profiler recording every allocation; then a few times without it, for the time.
``restore_job`` leaves no trace of this in the job. The optimizer's own allocations are recorded in
a real step. All that is measured goes to ``PID.look-memory.json``; ``analysis.memory_plan`` reads
it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from ...core.events import Events
from ...core.listener import Listener
from ...core.recorder import clock_ns
from .allocation_profiler import MemoryProfiler, read_allocations
from .repeated_pass import RepeatedPass, device_of
from .step_marks import StepMarks
from .step_tape import NotReplayableError, StepTape

LOOK = "memory"
TOO_SHORT = "the job ended before the third step of an optimizer of PyTorch (none of Keras is one)"
FIRST = 2
"""steps before the look: the first one makes the optimizer's state and fills caches"""
SETTLED = 7
"""steps after the look that are marked, without the first; two may be those of another look"""


def is_requested(look: str = LOOK) -> bool:
    """Whether ``--look memory``, or another look, was given."""
    return look in os.environ.get("WHYIDLE_LOOK", "").split(",")


class MemoryLook(Listener):
    """Makes the look in one training process."""

    listener = "memory look"
    document = "look-memory.json"
    wants_steps = wants_detail = True
    at_work: ClassVar[MemoryLook | None] = None
    """the look that records a step; others wait, since its hooks would be part of theirs"""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.seen = 0
        self.tape: StepTape | None = None
        self.found: dict[str, Any] = {"state": TOO_SHORT}
        self.undo: list[Callable[[], Any]] = []
        self.update: tuple[MemoryProfiler, Any] | None = None
        """what the optimizer allocates in one step; read after the look, since that takes memory"""
        self.marks: StepMarks | None = None
        """of the steps before the look, then of those after it"""
        self.fault_s = 0.0
        self.done = False
        self.kept_gradients: bool | None = None
        """whether gradients of the step before were there when the model was called"""
        self.publish()

    def publish(self) -> None:
        """Publish what was found in ``PID.look-memory.json``, or another look's file."""
        self.events.recorder.documents[self.document] = self.found

    def stop_listening(self) -> None:
        """Stop recording the step."""
        self._stop_recording()
        if self.marks is not None:
            self.marks.stop()
        self.wants_steps = False

    def _stop_recording(self) -> None:
        if self.tape is not None:
            self.tape.stop()
        while self.undo:
            self.undo.pop()()
        self.wants_detail, self.tape = False, None
        if MemoryLook.at_work is self:
            MemoryLook.at_work = None

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """The first backward pass ends the recording of calls."""
        if self.tape is not None:
            self.tape.note_loss(args[:1])

    def on_step(self, optimizer: Any) -> None:
        """Record one step, and look after it."""
        rank = self.events.recorder.facts.get("rank") or os.environ.get("RANK") or "0"
        if optimizer is None or id(optimizer) != self.events.lead or not self.wants_steps:
            return
        torch: Any = sys.modules["torch"]
        self.seen += 1
        if self.marks is not None:
            self.marks.end_step()
        elif device_of(optimizer).type == "cpu":  # others compute meanwhile
            self.marks = StepMarks(torch, optimizer, self._contain)
        free = MemoryLook.at_work in (None, self) and not torch.autograd._profiler_enabled()
        if self.done:
            self._note_settled()
        elif self.seen >= FIRST and free:
            self._record_or_look(torch, optimizer, str(rank))

    def _record_or_look(self, torch: Any, optimizer: Any, rank: str) -> None:
        try:
            if rank != "0":
                raise NotReplayableError("another rank is looked at")
            if self.tape is None:
                self._begin(torch, optimizer)
                return
            self._look(torch, optimizer)
        except NotReplayableError as reason:
            self.found = {**self.found, "state": str(reason)}
        self.publish()
        self._stop_recording()
        self.done = True
        if self.marks is None or self.found["state"] != "measured":
            self.stop_listening()

    def make_pass(self, torch: Any, optimizer: Any) -> RepeatedPass:
        """The measurements."""
        assert self.tape is not None
        return RepeatedPass(torch, self.tape, optimizer, self.events.recorder.file_path("draft"))

    def _look(self, torch: Any, optimizer: Any) -> None:
        """Measure, and mark the steps from here on."""
        assert self.tape is not None
        self.tape.stop()
        begin = clock_ns()
        look = self.make_pass(torch, optimizer)
        try:
            look.measure()
        except NotReplayableError as reason:
            look.found["state"] = str(reason)
        except RuntimeError as error:  # of the framework, out of memory among them
            look.found["state"] = f"the step could not be computed again ({error})"[:400]
        look.found["optimizer_rows"] = self._read_update(optimizer)
        look.found["kept_gradients"] = self.kept_gradients
        self.found, self.fault_s = {**look.found, "windows": [(begin, clock_ns())]}, look.fault_s
        if self.marks is not None:
            self.found["job_faults_s"] = [n * look.fault_s for n in self.marks.least_faults()]
            self.marks.rows = []

    def _note_settled(self) -> None:
        """Note how the steps after the look divide."""
        if self.marks is not None and len(self.marks.rows) > 1:
            self.found = {**self.found, "job_shares": self.marks.median_shares(self.fault_s)}
            self.publish()
            if len(self.marks.rows) > SETTLED:
                self.stop_listening()

    def _contain(self, work: Callable[..., Any]) -> Callable[..., None]:
        return lambda *_: self.events.run_contained(self.listener, work)

    def _begin(self, torch: Any, optimizer: Any) -> None:
        """Record the next step."""
        MemoryLook.at_work = self

        def note_gradients() -> None:
            parameters = (p for group in optimizer.param_groups for p in group["params"])
            self.kept_gradients = any(p.grad is not None for p in parameters)

        self.tape = StepTape(torch, note_gradients, device_of(optimizer).type)
        self.tape.start()
        self._record_update(torch, optimizer)

    def _record_update(self, torch: Any, optimizer: Any) -> None:
        """Record what the next step of the optimizer allocates."""
        profiler = MemoryProfiler(torch, cuda=False)

        def start_profiler(*_: Any) -> None:
            if not torch.autograd._profiler_enabled():
                profiler.start("whyidle::update")

        def stop_profiler(*_: Any) -> None:
            if profiler.running:
                self.update = profiler, profiler.stop()

        self.undo = [
            optimizer.register_step_pre_hook(self._contain(start_profiler)).remove,
            optimizer.register_step_post_hook(self._contain(stop_profiler)).remove,
        ]

    def _read_update(self, optimizer: Any) -> list[list[int]]:
        if self.update is None:
            return []
        path = self.events.recorder.file_path("draft")
        rows: list[list[int]] = read_allocations(*self.update, path, device_of(optimizer))["rows"]
        return rows
