"""Applies fixes at run time: each module sets the knobs of its family.

``loader.apply`` sets ``loader.workers``, and so on. ``WHYIDLE_PLAN`` names a JSON file with the
settings: ``{"edits": {knob: value}, "was": {knob: value}}``, and for knobs of other packages
``"implementations": {knob: file}``, a file with ``apply(session, settings)``. ``PID.knobs.json``
reports how often each knob was applied, or why it declined; then the job runs unchanged. For
objects that are changed when they are created it also lists the lines of the job that create them.
A fault in a knob withdraws that knob and is recorded (``containment``).
"""

from __future__ import annotations

import atexit
import functools
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ..core import fault_containment as guard
from ..core.events import Events
from ..core.import_hooks import call_after_import
from ..core.listener import Listener
from ._source_line import find_source_line

NO_FORM = "it cannot be applied while the script runs"
Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


class DeclinedError(Exception):
    """A knob cannot be applied here; the message says why, for the user."""


class KnobSession:
    """Applies the knobs of one process and reports on them."""

    def __init__(self, folder: str, plan: dict[str, Any]) -> None:
        self.folder = folder
        self.edits: dict[str, Any] = plan.get("edits", {})
        self.was: dict[str, Any] = plan.get("was", {})
        self.implementations: dict[str, str] = plan.get("implementations", {})
        self.applied: dict[str, int] = {}
        self.declined: dict[str, str] = {}
        self.withdrawn: set[str] = set()
        """knobs that were applied and then withdrawn"""
        self.made: dict[str, dict[str, str]] = {}
        """knob -> ``file:line`` that creates what it changes -> why it is unchanged there, or empty
        """
        self.line: str | None = None
        """the line of the job that is creating an object now"""
        self.start = os.getcwd()
        self.waiting: dict[str, Callable[[], str]] = {}
        """knob -> why it has not been applied yet; empty text: nothing to report"""
        self.undo: list[Callable[[], None]] = []
        self.counts: list[StepCount] = []
        self.owner = os.getpid()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """Start a report of the child's own."""
        self.applied, self.declined = {}, {}
        self.waiting, self.made = {}, {}

    @property
    def is_child(self) -> bool:
        """Whether this process was forked from the one in which the knobs were applied."""
        return os.getpid() != self.owner

    def apply_knobs(self) -> None:
        """Apply every knob of the plan."""
        for place in dict.fromkeys(map(self._place, self.edits)):
            own = {knob: to for knob, to in self.edits.items() if self._place(knob) == place}
            if place == "env":  # in the environment already, by whatever started the command
                continue
            foreign = place in self.implementations.values()
            if not (Path(place) if foreign else Path(__file__).parent / f"{place}.py").is_file():
                self.decline_knobs(own, f"there is no file {place} here" if foreign else NO_FORM)
                continue
            before = len(self.undo)
            try:
                if foreign:
                    load_file(place).apply(self, own)
                else:
                    importlib.import_module(f"{__name__}.{place}").apply(self, own)
            except DeclinedError as reason:
                self.undo_changes(before)
                self.decline_knobs(own, str(reason))
            except Exception as error:  # contained: the job continues without the knob
                self.undo_changes(before)
                self.report_fault(own, error)

    def _place(self, knob: str) -> str:
        """The file of another package that sets a knob, or the module of its family here."""
        return self.implementations.get(knob, knob.partition(".")[0])

    def record_applied(self, *knobs: str) -> None:
        """Count one more application of these knobs."""
        knobs = tuple(knob for knob in knobs if knob not in self.withdrawn)
        new = self._note_lines(knobs)
        for knob in knobs:
            count = self.applied[knob] = self.applied.get(knob, 0) + 1
            if new or not count & (count - 1):  # rarely, and still nearly exact after SIGKILL
                self.write_state()

    def _note_lines(self, knobs: Collection[str], why: str = "", line: str | None = None) -> bool:
        """Note whether these knobs changed the object that is being created; return whether that is
        new for its line. One unchanged object stands for all that its line creates."""
        line = line or self.line
        if line is None:
            return False
        known = [self.made.setdefault(knob, {}) for knob in knobs]
        new = any(why or line not in lines for lines in known)
        for lines in known:
            lines[line] = lines.get(line) or why
        return new

    def decline_knobs(self, knobs: Collection[str], why: str, line: str | None = None) -> None:
        """Decline these knobs. What was applied elsewhere stays. ``line`` created the object that
        stays unchanged, if not the current line."""
        self._note_lines(knobs, why, line)
        for knob in knobs:
            if knob not in self.declined:
                self.declined[knob] = why
        self.write_state()

    def release_knob(self, knob: str, why: str) -> None:
        """Withdraw a knob that was applied: its applications no longer count."""
        self.withdrawn.add(knob)
        self.applied.pop(knob, None)
        self.decline_knobs([knob], why)

    def wait_for(self, knobs: Collection[str], why: str | Callable[[], str]) -> None:
        """Say why these knobs have not been applied, should they never be."""
        for knob in knobs:
            self.waiting[knob] = why if callable(why) else lambda: why

    def report_fault(self, knobs: Collection[str], error: BaseException) -> None:
        """Record a fault of the probe and decline these knobs."""
        guard.note_fault(self.folder, f"knob {' '.join(knobs)}", error)
        self.decline_knobs(knobs, f"{type(error).__name__}: {error}")

    def run_contained(self, knobs: Collection[str], work: Callable[..., Any], *args: Any) -> Any:
        """Return the result of ``work``; None, with these knobs declined, if it fails. An exception
        of the job's own signal handlers passes."""
        try:
            return work(*args)
        except Exception as error:  # no fault of the probe may reach the job
            if guard.signal_of_handler(error) is not None:
                raise
            self.report_fault(knobs, error)
            return None

    def write_state(self) -> None:
        """Write the report on the knobs, completely or not at all."""
        report: dict[str, Any] = {"applied": self.applied, "declined": self.declined}
        report["made"] = self.made
        settled = {*self.applied, *self.declined}
        report["waiting"] = {
            knob: text
            for knob, why in self.waiting.items()
            if knob not in settled and (text := why())
        }
        text = json.dumps(report)
        path = Path(self.folder) / f"{os.getpid()}.knobs.json"
        try:
            draft = path.with_suffix(".draft")
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        except OSError as error:
            guard.note_fault(self.folder, "reporting on the knobs", error)

    def replace_function(self, owner: Any, name: str, make: Wrapper) -> None:
        """Replace ``owner.name`` with ``make(owner.name)`` until the change is undone."""
        original = getattr(owner, name)
        own = name in vars(owner)
        setattr(owner, name, functools.wraps(original)(make(original)))

        def undo() -> None:
            setattr(owner, name, original) if own else delattr(owner, name)

        self.undo.append(undo)

    def wrap_constructor(self, kind: type, make: Wrapper) -> None:
        """Wrap the ``__init__`` of a class with ``make``, and note the lines that call it."""

        def note_line(original: Callable[..., Any]) -> Callable[..., Any]:
            init = make(original)

            def construct(*args: Any, **named: Any) -> Any:
                made = args[0] if args else named.get("self")
                before = self.line
                self.line = self.run_contained(
                    (), find_source_line, sys._getframe(1), made, self.start
                )
                try:
                    return init(*args, **named)
                finally:
                    self.line = before

            return construct

        self.replace_function(kind, "__init__", note_line)

    def after_import(
        self, knobs: Collection[str], module: str, attribute: str, work: Callable[[Any], None]
    ) -> None:
        """Call ``work`` with a module that has this attribute, now or once the job imports it."""

        def run(loaded: Any) -> None:
            self.run_contained(knobs, work, loaded)

        self.undo.append(call_after_import(module, attribute, run))

    def after_steps(self, work: Callable[[int], None], ended: Callable[[], Any] = bool) -> None:
        """Call ``work`` with the step number after every step of the optimizer that steps first, in
        any framework; ``ended`` once steps are no longer seen."""
        count = StepCount(self, work, ended)
        self.counts.append(count)

        def watch_torch(optimizers: Any) -> None:
            def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
                count.note_step(optimizer)

            self.undo.append(optimizers.register_optimizer_step_post_hook(after_step).remove)

        module = "torch.optim.optimizer"
        self.after_import((), module, "register_optimizer_step_post_hook", watch_torch)

    def follow_steps(self, events: Events) -> None:
        """Count the steps that frameworks other than PyTorch report, too."""
        if self.counts and StepRelay.listener not in events.undo:
            events.add_listener(StepRelay(self.counts))

    def undo_changes(self, to: int = 0) -> None:
        """Undo all changes but the first ``to``, last first."""
        while len(self.undo) > to:
            self.undo.pop()()


class StepCount:
    """The steps of the optimizer that steps first, whose number goes to ``work``."""

    def __init__(
        self, session: KnobSession, work: Callable[[int], None], ended: Callable[[], Any]
    ) -> None:
        self.session, self.work, self.ended = session, work, ended
        self.first: int | None = None
        self.steps = 0

    def note_step(self, optimizer: Any) -> None:
        """An optimizer has stepped; None: one that its framework does not name."""
        if self.first is None:
            self.first = id(optimizer)
        if self.first == id(optimizer):
            self.steps += 1
            self.session.run_contained(tuple(self.session.edits), self.work, self.steps)


class StepRelay(Listener):
    """Passes on steps but PyTorch's, whose own hook stays when the recording ends."""

    listener = "steps of knobs"
    wants_steps = True

    def __init__(self, counts: list[StepCount]) -> None:
        self.counts = counts

    def on_step(self, optimizer: Any) -> None:
        """Count the step."""
        kinds = getattr(sys.modules.get("torch.optim"), "Optimizer", ())
        if not isinstance(optimizer, kinds):
            for count in self.counts:
                count.note_step(optimizer)

    def stop_listening(self) -> None:
        """No further step will be seen."""
        for count in self.counts:
            count.ended()


def install(folder: str) -> KnobSession | None:
    """Apply the knobs of the plan that ``WHYIDLE_PLAN`` names; None if there is none."""
    path = os.environ.get("WHYIDLE_PLAN")
    if not path:
        return None
    try:
        plan = json.loads(Path(path).read_text(encoding="utf-8"))
        parts = {name: dict(plan[name]) for name in ("edits", "was")}
        session = KnobSession(folder, parts | {"implementations": plan.get("implementations", {})})
    except (OSError, ValueError, TypeError, LookupError) as error:
        guard.note_fault(folder, "reading the plan", error)
        return None
    session.apply_knobs()
    session.write_state()
    atexit.register(session.write_state)
    return session


def load_file(path: str) -> Any:
    """Load a module by its file, without adding it to ``sys.modules``."""
    spec = importlib.util.spec_from_file_location(f"{__name__}.{Path(path).stem}_plugin", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def do_nothing(_: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does nothing, in place of the original."""
    return lambda *_args, **_named: None
