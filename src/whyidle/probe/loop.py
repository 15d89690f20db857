"""The call sites of a training loop: next batch, backward, optimizer, save.

What lies between them (forward, loss, Python of the user's own) is told by the sampler, so that
no module and no tensor is touched: models can still be pickled, copied and compiled.
"""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from . import (
    accelerator,
    bursts,
    collector,
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
from .recorder import ANNOTATION, OP, STEP, Recorder, Short, now, tag
from .sampler import Sampler
from .wrapping import patch, take_off

PACKAGE = __name__.partition(".")[0]
thread = threading.get_ident

MOST_OTHERS = 50
"""steps of other optimizers without one of the lead, after which it is given up"""
BACKWARDS = 3
"""after so many backward passes a process trains, even if no optimizer of PyTorch's is seen"""


class Loop(hot.Hot):
    """The wrappers of one process. Slots, for hooks reach them soonest."""

    __slots__ = (
        "_boundary",
        "asked",
        "backwards",
        "batches",
        "bursts",
        "collecting",
        "device",
        "ends",
        "evaluating",
        "full",
        "ids",
        "imported",
        "looks",
        "numbers",
        "off",
        "optimizers",
        "others",
        "planned",
        "recorder",
        "sampler",
        "saves",
        "skipped",
        "undo",
        "waited",
    )

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.imported = now()
        self.undo: dict[str, Callable[[], Any]] = {}
        self.off: set[str] = set()
        """hooks that failed: one that still lies below somebody else's only passes on"""
        self.ends: deque[int] = deque(maxlen=512)
        """when the last steps of the lead ended, as far as they were written, ns"""
        recorder.heard, recorder.ended = self.heard, self.deaf
        self.planned = 1
        """the step after which something is to be done, and ``due`` if nothing comes before"""
        self.full: Callable[[], None] | None = None
        """what is to be done then, beside looking"""
        self.optimizers: dict[int, str] = {}
        self.others = (0, 0, 0)
        """how many steps others took, how many the lead had before the last of them, and how many
        of them came since its last one"""
        self.numbers: dict[int | str | type, int] = {}
        """of names: an optimizer's by its id, iterators' by their class, others by themselves"""
        self.collecting = 0
        self.backwards = 0
        self.skipped = 0
        self.asked: dict[str, str] = {}
        self.saves: list[dict[str, Any]] = []
        self.sampler: Sampler | None = None
        self.evaluating: phases.Evaluation | None = None
        """the one that is under way"""
        self.batches: set[int] = set()
        """tags of batches"""
        self.waited = 0
        """ns in which the loop waited for its next batch, as far as they were written"""
        self.bursts: bursts.Bursts | None = None
        self._boundary: Callable[[Any], None] | None = None
        self.device: device.Device | None = None
        self.ids: ids.Ids | None = None
        self.asks = None
        self._begin()
        os.register_at_fork(after_in_child=self._forked)

    def _begin(self) -> None:
        """Nothing was seen yet."""
        self.add = self.recorder.short.extend
        self.steps = self.looks = self.backwards = self.batch = self.named = 0
        self.backward = tag(self.recorder.number(hot.BACKWARD), OP)
        self.planned = 1
        self.lead, self.iterator, self.others = None, None, (0, 0, 0)
        self.home = 0
        self.alert()

    def _forked(self) -> None:
        self._begin()
        self.ends.clear()
        self.numbers.clear()
        self.batches.clear()
        self.sampler = None

    def alert(self) -> None:
        """There may be more to do in hooks than to record. From any thread."""
        self.careful, self.due = True, 0

    def heed(self) -> None:
        """Look whether there still is. On the thread that trains."""
        measured, looked = self.device, self.ids
        often = measured is not None or self._boundary is not None
        self.due = 0 if often else self.planned
        self.careful = (
            not self.steps
            or self.evaluating is not None
            or (measured is not None and bool(measured.open))
            or (looked is not None and looked.left > 0)
        )

    @property
    def boundary(self) -> Callable[[Any], None] | None:
        """What wants to hear of every optimizer that has stepped."""
        return self._boundary

    @boundary.setter
    def boundary(self, work: Callable[[Any], None] | None) -> None:
        self._boundary = work
        self.alert()

    def heard(self, spans: list[Short]) -> None:
        """These spans of the home thread are being written, by the thread that does."""
        self.ends.extend([end for what, _, end in spans if what == self.named])
        self.waited += sum(end - begin for what, begin, end in spans if what in self.batches)

    def deaf(self) -> None:
        """Nothing is recorded any more: not even in memory."""
        self.add = _keep_nothing

    def span(self, name: str, kind: int, begin: int) -> None:
        """Record what ends now."""
        self.numbered(self.recorder.number(name), kind, begin)

    def numbered(self, number: int, kind: int, begin: int) -> None:
        """The same, where the number of the name is known."""
        span = (begin, now(), thread(), number, kind)  # first: a flush in between takes ``add``
        self.recorder.add(span)

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
            chores.append(self.alert)  # what another thread wants can be missed, but not for long
            self.sampler.start()

    def finish(self, *, dying: bool = True) -> None:
        """The process ends: nothing of ours may run while its interpreter falls apart. Or, where it
        is not ``dying``, the recording ends before it."""
        guard.contained(self.recorder.folder, "the end", lambda: self._finish(dying))

    def _finish(self, dying: bool) -> None:
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
            self.recorder.facts |= leaving.died_of() if dying else {}
        elif sampler is not None:
            settings.seen(self)
            if self.recorder.presence:
                self.recorder.presence |= {"ended": now(), **leaving.died_of()}
        if self.recorder.facts or self.recorder.documents or self.recorder.presence:
            self.recorder.flush()
        self.recorder.end()

    def finish_with_child(self) -> None:
        """Have a child of ``multiprocessing`` finish: forked ones run no ``atexit``."""
        multiprocessing.util.Finalize(None, self.finish, exitpriority=10)

    def contained(self, where: str, work: Callable[..., Any], *args: Any) -> None:
        """A hook's work, none of whose faults reaches the job."""
        try:
            if where not in self.off:
                work(*args)
        except Exception as error:  # contained, counted, and the hook taken off
            self.failed(where, error)

    def failed(self, where: str, error: Exception) -> None:
        """A wrapper of ours failed: it comes off, unless the job is at its limit."""
        if not isinstance(error, (RecursionError, MemoryError)):
            self.fault(where, error)

    def fault(self, where: str, error: BaseException) -> None:
        """A wrapper of ours failed: it comes off."""
        guard.contain(self.recorder.folder, where, error, lambda: take_off(self, where))

    def trains(self, optimizer: Any) -> None:
        """From now on this process reports."""
        if self.recorder.facts:
            return
        self.watch()
        self.home = thread()
        self.recorder.live_in(self.home)
        if self.sampler is not None:
            self.sampler.follow(self.home)
        self.recorder.facts = settings.facts(self, optimizer)
        self.contained("device", device.begin, self)
        if multiprocessing.parent_process() is not None:
            self.finish_with_child()

    def took(self, kind: type, begin: int) -> None:
        """An iterator of this class has handed over a batch now."""
        number = self.numbers.get(kind)
        if number is None:
            name = f"enumerate(DataLoader)#{kind.__name__}.__next__"
            number = self.numbers[kind] = self.recorder.number(name)
        if thread() == self.home:
            self.batch = tag(number, ANNOTATION)
            self.batches.add(self.batch)
            self.iterator = kind
            self.add((self.batch, begin, now()))
        else:
            self.numbered(number, ANNOTATION, begin)

    def optimizes(self, optimizer: Any) -> int:
        """The number of the name of an optimizer's steps. Those that take turns are told apart."""
        name = self.optimizers.get(id(optimizer))
        if name is None:
            kind = f"Optimizer.step#{type(optimizer).__name__}.step"
            same = sum(known.startswith(kind) for known in self.optimizers.values())
            name = self.optimizers[id(optimizer)] = f"{kind} ({same + 1})" if same else kind
            self.contained("optimizers", settings.another, self, name, optimizer)
        return self.numbers.setdefault(id(optimizer), self.recorder.number(name))

    def other(self, optimizer: Any, begin: int, end: int) -> None:
        """Not the lead has stepped, or not on the home thread."""
        number = self.numbers.get(id(optimizer))
        if number is None:
            number = self.optimizes(optimizer)
        if id(optimizer) != self.lead:
            self._not_lead(optimizer, number)
        span = (begin, end, thread(), number, STEP)
        self.recorder.add(span)

    def _not_lead(self, optimizer: Any, number: int) -> None:
        """It becomes the lead where there is none, or none any more."""
        others, before, count = self.others
        of_lead = self.steps - others
        count = count + 1 if of_lead == before else 1
        self.others = (others + 1, of_lead, count)
        if self.lead is None or count > MOST_OTHERS:  # the job has made a new one
            self.named = tag(number, STEP)
            self.lead = id(optimizer)

    def retreats(self) -> None:
        """A backward pass has ended, and no optimizer was seen to step yet."""
        self.backwards += 1
        if self.backwards == BACKWARDS:
            self.trains(None)  # its optimizer is none of PyTorch's

    def stepped(self, optimizer: Any, begin: int) -> None:
        """An optimizer's step ends now."""
        self.numbered(self.optimizes(optimizer), ANNOTATION, begin)
        self.steps += 1
        if self.steps >= self.planned:
            self.notable(optimizer)

    def attend(self, optimizer: Any) -> None:
        """It has stepped, and there may be more to do than to record that."""
        if self.steps >= self.planned:
            self.notable(optimizer)
        if self.device is not None:
            self.ended(optimizer)
        wanted = self._boundary
        if wanted is not None:
            self.contained("burst", wanted, optimizer)
        self.heed()

    def notable(self, optimizer: Any) -> None:
        """After the first step, and some later ones."""
        if self.steps >= debugging.LOOKS[self.looks]:
            self.looks += 1
            if self.steps == 1:
                self.trains(optimizer)
            debugging.look(self)
        full, self.full = self.full, None
        self.planned = debugging.LOOKS[self.looks]
        if full is not None:
            full()

    def later(self, steps: int, work: Callable[[], None]) -> None:
        """Have something done so many steps from now, or before."""
        self.full, self.planned = work, min(self.planned, self.steps + steps)
        self.due = min(self.due, self.planned)

    def traced(self) -> None:
        """From now on ``torch.compile`` may trace this process, or would not tell us if it did."""
        self.asks = guard.compiling()

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

        patch(self, where, owner, name, recording)


def install(recorder: Recorder) -> Loop:
    """Wrap the call sites of PyTorch."""
    loop = Loop(recorder)
    hooks = (hot, loader, ranks, collector, bursts, limits, phases, accelerator, compiling)
    for each in (*hooks, tracebacks, leaving, debugging):
        each.install(loop)
    if multiprocessing.parent_process() is None and threading.current_thread().name == "MainThread":
        loop.watch()
    atexit.register(loop.finish)
    try:
        guard.hide(*(sys.modules[name] for name in list(sys.modules) if name.startswith(PACKAGE)))
    except (ImportError, AttributeError) as error:  # this PyTorch has other names for it
        guard.note(recorder.folder, guard.HIDING, error)
    return loop


def _keep_nothing(span: Short) -> None:
    """In the place of what keeps it."""
