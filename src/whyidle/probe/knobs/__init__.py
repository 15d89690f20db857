"""Fixes as they are applied at run time: each file turns the knobs that begin with its name.

``loader.workers`` is turned by ``loader.turn``, and so on. What is asked for stands in the JSON
file that ``WHYIDLE_PLAN`` names: ``{"edits": {knob: value}, "was": {knob: value}}``, and for knobs
of other packages ``"implementations": {knob: file}``, a file with ``apply(session, settings)``. A
knob says in ``PID.knobs.json`` how often it took hold, or why it declined; then the job runs as it
was. Of what is set as it is made it says at which lines of the job it was set, and why not at
others. A fault while a knob is turned, or later in what it put into the job, leaves that knob alone
and is noted like every other (``guard``).
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

from ..core import containment as guard
from ._source_line import line_of

NO_FORM = "it has no form that could be applied while the script runs"
Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


class DeclinedError(Exception):
    """A knob cannot be turned here; the message says why, for people."""


class KnobSession:
    """What turns the knobs of one process, and tells of it."""

    def __init__(self, folder: str, asked: dict[str, Any]) -> None:
        self.folder = folder
        self.edits: dict[str, Any] = asked.get("edits", {})
        self.was: dict[str, Any] = asked.get("was", {})
        self.implementations: dict[str, str] = asked.get("implementations", {})
        self.applied: dict[str, int] = {}
        self.declined: dict[str, str] = {}
        self.let_go: set[str] = set()
        """knobs that took hold, and should not have"""
        self.made: dict[str, dict[str, str]] = {}
        """knob -> ``file:line`` that makes what it sets -> why it is not set there, or nothing"""
        self.line: str | None = None
        """the one that is being carried out"""
        self.start = os.getcwd()
        self.multiplied: dict[str, list[int]] = {}
        """of a knob that multiplies what it finds, what that was"""
        self.waiting: dict[str, Callable[[], str]] = {}
        """what a knob that took no hold so far still waits for; empty: nothing worth telling"""
        self.undo: list[Callable[[], None]] = []
        self.owner = os.getpid()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """A child tells of what takes hold in it."""
        self.applied, self.declined = {}, {}
        self.waiting, self.made, self.multiplied = {}, {}, {}

    @property
    def is_child(self) -> bool:
        """Whether this is another process than the one that the knobs were turned in."""
        return os.getpid() != self.owner

    def apply_knobs(self) -> None:
        """Turn every knob that was asked for."""
        for place in dict.fromkeys(map(self._place, self.edits)):
            own = {knob: to for knob, to in self.edits.items() if self._place(knob) == place}
            if place == "env":  # in the environment already: whoever starts the command does that
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
            except Exception as error:  # contained: the job goes on without it
                self.undo_changes(before)
                self.report_fault(own, error)

    def _place(self, knob: str) -> str:
        """What sets a knob: a file of another package, or the one of its family here."""
        return self.implementations.get(knob, knob.partition(".")[0])

    def record_applied(self, *knobs: str) -> None:
        """These have taken hold, once more."""
        knobs = tuple(one for one in knobs if one not in self.let_go)
        new = self._note_lines(knobs)
        for knob in knobs:
            count = self.applied[knob] = self.applied.get(knob, 0) + 1
            if new or not count & (count - 1):  # seldom, and yet nearly right where it is killed
                self.write_state()

    def _note_lines(self, knobs: Collection[str], why: str = "", line: str | None = None) -> bool:
        """That these took hold on what is being made, or why not; whether that is news of its line.
        One that was left stands for all that its line makes."""
        line = line or self.line
        if line is None:
            return False
        known = [self.made.setdefault(knob, {}) for knob in knobs]
        new = any(why or line not in lines for lines in known)
        for lines in known:
            lines[line] = lines.get(line) or why
        return new

    def note_multiplied(self, knob: str, found: int) -> None:
        """A knob has found this, and multiplies it."""
        if found not in (known := self.multiplied.setdefault(knob, [])):
            known.append(found)
            self.write_state()

    def decline_knobs(self, knobs: Collection[str], why: str, line: str | None = None) -> None:
        """These cannot be turned. What took hold elsewhere stands. ``line`` has made what declines,
        where it is made already."""
        self._note_lines(knobs, why, line)
        for knob in knobs:
            if knob not in self.declined:
                self.declined[knob] = why
        self.write_state()

    def release_knob(self, knob: str, why: str) -> None:
        """It took hold, and the script should not be written so: that does not count any more."""
        self.let_go.add(knob)
        self.applied.pop(knob, None)
        self.decline_knobs([knob], why)

    def wait_for(self, knobs: Collection[str], why: str | Callable[[], str]) -> None:
        """These take hold when something happens; why that has not been, should it never be."""
        for knob in knobs:
            self.waiting[knob] = why if callable(why) else lambda: why

    def report_fault(self, knobs: Collection[str], error: BaseException) -> None:
        """A mistake of ours: told of as one, and these knobs are given up."""
        guard.note_fault(self.folder, f"knob {' '.join(knobs)}", error)
        self.decline_knobs(knobs, f"{type(error).__name__}: {error}")

    def run_contained(self, knobs: Collection[str], work: Callable[..., Any], *args: Any) -> Any:
        """What ``work`` gives; None, and these knobs given up, where it fails. An exception of the
        job's own signal handlers passes."""
        try:
            return work(*args)
        except Exception as error:  # nothing of ours may reach the job
            if guard.signal_of_handler(error) is not None:
                raise
            self.report_fault(knobs, error)
            return None

    def write_state(self) -> None:
        """Write down what has become of the knobs, whole or not at all."""
        told: dict[str, Any] = {"applied": self.applied, "declined": self.declined}
        told |= {"multiplied": self.multiplied, "made": self.made}
        settled = {*self.applied, *self.declined}
        told["waiting"] = {
            knob: text
            for knob, why in self.waiting.items()
            if knob not in settled and (text := why())
        }
        text = json.dumps(told)
        path = Path(self.folder) / f"{os.getpid()}.knobs.json"
        try:
            draft = path.with_suffix(".draft")
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        except OSError as error:
            guard.note_fault(self.folder, "telling of the knobs", error)

    def replace_function(self, owner: Any, name: str, make: Wrapper) -> None:
        """Put what ``make`` makes of ``owner.name`` in its place, until it is undone."""
        original = getattr(owner, name)
        own = name in vars(owner)
        setattr(owner, name, functools.wraps(original)(make(original)))

        def undo() -> None:
            setattr(owner, name, original) if own else delattr(owner, name)

        self.undo.append(undo)

    def replace_making(self, kind: type, make: Wrapper) -> None:
        """As ``replace`` of what makes the objects of a kind, and tell at which lines that is."""

        def noting(original: Callable[..., Any]) -> Callable[..., Any]:
            init = make(original)

            def making(*args: Any, **named: Any) -> Any:
                made = args[0] if args else named.get("self")
                before = self.line
                self.line = self.run_contained((), line_of, sys._getframe(1), made, self.start)
                try:
                    return init(*args, **named)
                finally:
                    self.line = before

            return making

        self.replace_function(kind, "__init__", noting)

    def after_steps(self, work: Callable[[int], None]) -> None:
        """Call ``work`` with their number after every step of the optimizer that steps first."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        first: list[int] = []
        count = 0

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            nonlocal count
            if not first:
                first.append(id(optimizer))
            if first[0] == id(optimizer):
                count += 1
                self.run_contained(tuple(self.edits), work, count)

        self.undo.append(register_optimizer_step_post_hook(after).remove)

    def undo_changes(self, to: int = 0) -> None:
        """Turn all back but the first so many changes, last first."""
        while len(self.undo) > to:
            self.undo.pop()()


def install(folder: str) -> KnobSession | None:
    """Turn the knobs that ``WHYIDLE_PLAN`` asks for; None where it asks for nothing."""
    path = os.environ.get("WHYIDLE_PLAN")
    if not path:
        return None
    try:
        asked = json.loads(Path(path).read_text(encoding="utf-8"))
        parts = {name: dict(asked[name]) for name in ("edits", "was")}
        hand = KnobSession(folder, parts | {"implementations": asked.get("implementations", {})})
    except (OSError, ValueError, TypeError, LookupError) as error:
        guard.note_fault(folder, "reading the plan", error)
        return None
    hand.apply_knobs()
    hand.write_state()
    atexit.register(hand.write_state)
    return hand


def load_file(path: str) -> Any:
    """A module by its file. It is not found by importing, nor does it hide what is."""
    spec = importlib.util.spec_from_file_location(f"{__name__}.{Path(path).stem}_plugin", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def do_nothing(_: Callable[..., Any]) -> Callable[..., Any]:
    """In the place of a function that is to do nothing any more."""
    return lambda *_args, **_named: None
