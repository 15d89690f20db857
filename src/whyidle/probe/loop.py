"""The call sites of a training loop: next batch, backward, optimizer, save, garbage collector.

What lies between them (forward, loss, Python of the user's own) is told by the sampler, so that
no module and no tensor is touched: models can still be pickled, copied and compiled.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing.util
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from . import (
    bursts,
    compiling,
    debugging,
    device,
    guard,
    hot,
    ids,
    leaving,
    limits,
    loader,
    phases,
    ranks,
    settings,
    tracebacks,
)
from .recorder import ANNOTATION, OVERHEAD, Recorder, now
from .sampler import Sampler

PACKAGE = __name__.partition(".")[0]
thread = threading.get_ident

MOST_TEXT = 200
MOST_OTHERS = 50
"""steps of other optimizers without one of the lead, after which it is given up"""
BACKWARDS = 3
"""after so many backward passes a process trains, even if no optimizer of PyTorch's is seen"""


class Loop:
    """The wrappers of one process. Slots, for hooks reach them soonest."""

    __slots__ = (
        "asked",
        "asking",
        "backwards",
        "boundary",
        "bursts",
        "collecting",
        "device",
        "due",
        "ends",
        "evaluating",
        "full",
        "ids",
        "imported",
        "lead",
        "looks",
        "named",
        "numbers",
        "optimizers",
        "optimizing",
        "others",
        "recorder",
        "sampler",
        "saves",
        "skipped",
        "steps",
        "undo",
        "waited",
    )

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.imported = now()
        self.undo: dict[str, Callable[[], Any]] = {}
        self.steps = self.looks = 0
        """optimizer steps, and those after which the process was looked at more closely"""
        self.due = 1
        """the step after which there is more to do than to record it"""
        self.full: Callable[[], None] | None = None
        """what is to be done then, beside looking"""
        self.optimizing: list[int] = []
        self.optimizers: dict[int, str] = {}
        self.lead: int | None = None
        """the id of the optimizer that steps first"""
        self.named = 0
        """the number of the name of its steps"""
        self.ends: deque[int] = deque(maxlen=512)
        """when they ended, ns"""
        self.others = (0, 0)
        """the last of them, and how many steps of others there were since"""
        self.numbers: dict[int | str | type, int] = {}
        """of names: an optimizer's by its id, iterators' by their class, others by themselves"""
        self.collecting = 0
        self.backwards = 0
        self.skipped = 0
        self.asked: dict[str, str] = {}
        self.asking: list[Callable[[], None]] = []
        """what has the hooks of every step ask whether they are traced, which takes its time"""
        self.saves: list[dict[str, Any]] = []
        self.sampler: Sampler | None = None
        self.evaluating: phases.Evaluation | None = None
        """the one that is under way"""
        self.waited = 0
        """ns in which the loop waited for its next batch"""
        self.bursts: bursts.Bursts | None = None
        self.boundary: Callable[[Any], None] | None = None
        """what wants to hear of every optimizer that has stepped"""
        self.device: device.Device | None = None
        self.ids: ids.Ids | None = None
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.steps = self.looks = self.backwards = 0
        self.due = 1
        self.lead, self.others = None, (0, 0)
        self.ends.clear()
        self.optimizing.clear()
        self.numbers.clear()
        self.sampler = None

    def span(self, name: str, kind: int, begin: int) -> None:
        """Record what ends now."""
        self.numbered(self.recorder.number(name), kind, begin)

    def numbered(self, number: int, kind: int, begin: int) -> None:
        """The same, where the number of the name is known."""
        self.recorder.add((begin, now(), thread(), number, kind))

    def watch(self) -> None:
        """Look at what this thread does from now on."""
        if self.sampler is None:
            chores: list[Callable[[], Any]] = [lambda: settings.refresh(self)]
            self.sampler = Sampler(self.recorder, thread(), chores, lambda: settings.seen(self))
            if self.ids is not None:
                chores.append(self.ids.consider)
            if self.bursts is not None:
                chores.append(self.bursts.consider)
                self.sampler.looking = self.bursts.watch
            self.sampler.start()

    def finish(self) -> None:
        """The process ends: nothing of ours may run while its interpreter falls apart."""
        guard.contained(self.recorder.folder, "the end", self._finish)

    def _finish(self) -> None:
        if "gc" in self.undo:
            self.undo.pop("gc")()
        if self.bursts is not None:
            guard.contained(self.recorder.folder, "burst", self.bursts.close)
        sampler, self.sampler = self.sampler, None
        if sampler is not None and not sampler.stop():
            return  # it hangs in a write, and so would we
        if self.recorder.facts and not self.recorder.broken:
            settings.refresh(self)
            self.recorder.facts["ended"] = now()
            self.recorder.facts |= _died_of()
        elif sampler is not None:
            settings.seen(self)
            if self.recorder.presence:
                self.recorder.presence |= {"ended": now(), **_died_of()}
        if self.recorder.facts or self.recorder.documents or self.recorder.presence:
            self.recorder.flush()
        self.recorder.end()

    def finish_with_child(self) -> None:
        """Have a child of ``multiprocessing`` finish: forked ones run no ``atexit``."""
        multiprocessing.util.Finalize(None, self.finish, exitpriority=10)

    def contained(self, where: str, work: Callable[..., Any], *args: Any) -> None:
        """A hook's work, none of whose faults reaches the job."""
        try:
            work(*args)
        except Exception as error:  # contained, counted, and the hook taken off
            self.failed(where, error)

    def failed(self, where: str, error: Exception) -> None:
        """A wrapper of ours failed: it comes off, unless the job is at its limit."""
        if not isinstance(error, (RecursionError, MemoryError)):
            self.fault(where, error)

    def fault(self, where: str, error: BaseException) -> None:
        """A wrapper of ours failed: it comes off."""
        guard.contain(self.recorder.folder, where, error, self.undo.pop(where, _nothing))

    def trains(self, optimizer: Any) -> None:
        """From now on this process reports."""
        if self.recorder.facts:
            return
        self.watch()
        if self.sampler is not None:
            self.sampler.follow(thread())
        self.recorder.facts = settings.facts(self, optimizer)
        self.contained("device", device.begin, self)
        if multiprocessing.parent_process() is not None:
            self.finish_with_child()

    def iterates(self, kind: type) -> int:
        """The number of the name under which iterators of this class are recorded."""
        name = f"enumerate(DataLoader)#{kind.__name__}.__next__"
        number = self.numbers[kind] = self.recorder.number(name)
        return number

    def optimizes(self, optimizer: Any) -> int:
        """The number of the name of an optimizer's steps. Those that take turns are told apart."""
        name = self.optimizers.get(id(optimizer))
        if name is None:
            kind = f"Optimizer.step#{type(optimizer).__name__}.step"
            same = sum(known.startswith(kind) for known in self.optimizers.values())
            name = self.optimizers[id(optimizer)] = f"{kind} ({same + 1})" if same else kind
        number = self.numbers[id(optimizer)] = self.recorder.number(name)
        return number

    def other(self, optimizer: Any) -> int:
        """An optimizer has stepped that is not the lead: the number of the name of its steps. It
        becomes the lead where there is none, or none any more."""
        number = self.numbers.get(id(optimizer))
        if number is None:
            number = self.optimizes(optimizer)
        last = self.ends[-1] if self.ends else 0
        before, count = self.others
        self.others = (last, count + 1 if before == last else 1)
        if self.lead is None or self.others[1] > MOST_OTHERS:  # the job has made a new one
            self.lead, self.named = id(optimizer), number
        return number

    def retreats(self) -> None:
        """A backward pass has ended, and no optimizer was seen to step yet."""
        self.backwards += 1
        if self.backwards == BACKWARDS:
            self.trains(None)  # its optimizer is none of PyTorch's

    def stepped(self, optimizer: Any, begin: int) -> None:
        """An optimizer's step ends now."""
        self.numbered(self.optimizes(optimizer), ANNOTATION, begin)
        self.steps += 1
        if self.steps >= self.due:
            self.notable(optimizer)

    def notable(self, optimizer: Any) -> None:
        """After the first step, and some later ones."""
        if self.steps >= debugging.LOOKS[self.looks]:
            self.looks += 1
            if self.steps == 1:
                self.trains(optimizer)
            debugging.look(self)
        full, self.full = self.full, None
        self.due = debugging.LOOKS[self.looks]
        if full is not None:
            full()

    def later(self, steps: int, work: Callable[[], None]) -> None:
        """Have something done so many steps from now, or before."""
        self.full, self.due = work, min(self.due, self.steps + steps)

    def traced(self) -> None:
        """From now on ``torch.compile`` may trace this process, or would not tell us if it did."""
        while self.asking:
            self.asking.pop()()

    def mark(self, kind: int, begin: int) -> None:
        """In a step whose progress on the device is measured."""
        measured = self.device
        if measured is not None:
            self.contained("device", measured.mark, kind, begin)

    def ended(self, optimizer: Any) -> None:
        """A step ends: its device may have to be measured."""
        measured = self.device
        if measured is not None:
            self.contained("device", measured.stepped, optimizer)

    def wrap(
        self,
        where: str,
        owner: Any,
        name: str,
        record: Callable[[Any, int], None],
    ) -> None:
        """Record every call of ``owner.name``: ``record(first argument, begin)`` after it."""
        is_compiling = guard.compiling()

        def recording(original: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if is_compiling():  # traced by torch.compile: then there is nothing to see in here
                    return original(*args, **kwargs)
                begin = now()
                try:
                    return original(*args, **kwargs)
                finally:
                    self.contained(where, record, args[0] if args else None, begin)

            return wrapper

        phases._patch(self, where, owner, name, recording)


def _died_of() -> dict[str, str]:
    """The exception that ends the program, once Python has printed it."""
    kind = getattr(sys, "last_type", None)
    if kind is None:
        return {}
    first = str(getattr(sys, "last_value", "")).partition("\n")[0]
    return {"died_of": f"{kind.__name__}: {first}"[:MOST_TEXT]}


def _nothing() -> None:
    """There is nothing to take off any more."""


def install(recorder: Recorder) -> Loop:
    """Wrap the call sites of PyTorch."""
    loop = Loop(recorder)
    hot.install(loop)
    loader.install(loop)
    ranks.install(loop)
    _collector(loop)
    bursts.install(loop)
    limits.install(loop)
    phases.install(loop)
    compiling.install(loop)
    tracebacks.install(loop)
    leaving.install(loop)
    debugging.install(loop)
    if multiprocessing.parent_process() is None and threading.current_thread().name == "MainThread":
        loop.watch()
    atexit.register(loop.finish)
    try:
        guard.hide(*(sys.modules[name] for name in list(sys.modules) if name.startswith(PACKAGE)))
    except (ImportError, AttributeError) as error:  # this PyTorch has other names for it
        guard.note(recorder.folder, "hiding from torch.compile", error)
    return loop


def step(loop: Loop) -> None:
    """The user says that a step ends here."""
    loop.contained("step", _marked, loop)


def _marked(loop: Loop) -> None:
    loop.span("whyidle.step", ANNOTATION, now())
    loop.steps += 1
    loop.trains(None)
    loop.ended(None)


def _collector(loop: Loop) -> None:
    def collected(phase: str, info: dict[str, int]) -> None:
        try:
            if phase == "start":
                loop.collecting = now()
            elif loop.collecting:
                begin, loop.collecting = loop.collecting, 0
                loop.span("Python GC", OVERHEAD, begin)
        except BaseException as error:  # Python drops what is raised in here: nothing may be lost
            if not guard.again(error):
                loop.fault("gc", error)

    dropped = sys.unraisablehook

    def unraisable(lost: Any) -> None:
        """A signal's exception at the first instruction of ``collected`` is beyond its ``try``."""
        if lost.object is not collected or not guard.again(lost.exc_value):
            dropped(lost)

    def undo() -> None:
        gc.callbacks.remove(collected)
        if sys.unraisablehook is unraisable:
            sys.unraisablehook = dropped

    gc.callbacks.append(collected)
    sys.unraisablehook = unraisable
    loop.undo["gc"] = undo
