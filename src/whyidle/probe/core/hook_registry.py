"""The hooks and listeners that are installed in the process, and how they are removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..wire import ProcessFacts
from . import fault_containment
from .listener import EVENTS, Heard, Listener
from .recorder import Recorder, clock_ns
from .wrapped_functions import Wrap, replace_function


class Framework(Protocol):
    """What ``Events`` needs of a framework."""

    is_tracing: Callable[[], bool]
    """whether the framework's compiler traces the calling code instead of running it"""
    backward_label: str

    def name_batch(self, iterator: type) -> tuple[str, str]:
        """Return role and label of the batches that iterators of this class return."""

    def name_optimizer(self, optimizer: Any) -> str:
        """Return the label of an optimizer's steps."""

    def describe_process(self) -> ProcessFacts | None:
        """Return facts that hold whether the process trains or not; None if none are known."""

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Return the facts known when training begins. ``optimizer`` is None if the framework has
        none."""


class HotSlots:
    """What hooks read in every step. A base class, so that its slots come first in memory."""

    __slots__ = (
        "add",
        "asks",
        "backward",
        "batch",
        "careful",
        "due",
        "home",
        "iterator",
        "lead",
        "named",
        "steps",
    )

    add: Callable[[tuple[int, int, int]], None]
    """records a span of the home thread: its tag, begin and end"""
    asks: Callable[[], bool] | None
    """whether a hook is being traced; None until the framework's compiler is used, as the check
    takes time"""
    careful: bool
    """whether hooks may have more to do than to record spans"""
    due: int
    """the step after which they have"""
    home: int
    """the thread whose spans are recorded in the short form"""
    backward: int
    """the tag of backward passes"""
    iterator: type | None
    """the class of the last iterator, and the tag of its batches"""
    batch: int
    lead: int | None
    """the id of the optimizer that steps first, and the tag of its steps"""
    named: int
    steps: int
    """steps of all optimizers"""


class HookRegistry(HotSlots):
    """The hooks and listeners of one process."""

    __slots__ = ("framework", "heard", "listeners", "off", "recorder", "undo")

    def __init__(self, recorder: Recorder, framework: Framework) -> None:
        self.recorder, self.framework = recorder, framework
        self.undo: dict[str, Callable[[], Any]] = {}
        """hook -> what removes it"""
        self.off: set[str] = set()
        """hooks that failed: one that cannot be removed, as another wraps it, only passes on"""
        self.listeners: tuple[Listener, ...] = ()
        self.heard: dict[str, Heard] = dict.fromkeys(EVENTS, ())
        """event -> the listeners' names and methods"""

    # -- listeners ----------------------------------------------------------------------------

    def add_listener(self, listener: Listener) -> None:
        """Subscribe a listener to the events it overrides, until ``undo`` of its name is called."""

        def unsubscribe() -> None:
            self._set_listeners([other for other in self.listeners if other is not listener])
            listener.stop_listening()

        self._set_listeners([*self.listeners, listener])
        self.undo[listener.listener] = unsubscribe

    def _set_listeners(self, listeners: list[Listener]) -> None:
        self.listeners = tuple(listeners)
        for event in EVENTS:
            silent = getattr(Listener, event)
            self.heard[event] = tuple(
                (listener.listener, getattr(listener, event))
                for listener in listeners
                if getattr(type(listener), event) is not silent
            )
        self.be_careful()

    def notify(self, event: str, *args: Any) -> None:
        """Call the listeners of an event."""
        for where, hear in self.heard[event]:
            self.run_contained(where, hear, *args)

    def be_careful(self) -> None:
        """Make hooks take the slow path. May be called from any thread."""
        self.careful, self.due = True, 0

    # -- faults and patches -------------------------------------------------------------------

    def run_contained(self, where: str, work: Callable[..., Any], *args: Any) -> None:
        """Do a hook's work; none of its faults reaches the job."""
        try:
            if where not in self.off:
                work(*args)
        except Exception as error:  # contained, recorded, and the hook removed
            self.report_failure(where, error)

    def report_failure(self, where: str, error: Exception) -> None:
        """Remove a hook that failed, unless the job has run out of stack or memory."""
        if not isinstance(error, (RecursionError, MemoryError)):
            self.remove_faulty(where, error)

    def remove_faulty(self, where: str, error: BaseException) -> None:
        """Remove a hook that failed and record the fault."""
        fault_containment.contain_fault(
            self.recorder.folder, where, error, lambda: self._take_off(where)
        )

    def _take_off(self, where: str) -> None:
        undo = self.undo.pop(where, None)
        if undo is not None:
            self.off.add(where)  # a hook that cannot be removed must not fail in every step
            undo()

    def patch_function(self, where: str, owner: Any, name: str, wrap: Wrap) -> None:
        """Replace ``owner.name`` with its wrapper; ``undo[where]`` removes it."""
        self.undo[where] = replace_function(owner, name, wrap)

    def patch_call(
        self, where: str, owner: Any, name: str, record: Callable[[Any, int], None]
    ) -> None:
        """Call ``record(first argument, begin)`` after every call of ``owner.name``."""
        is_tracing = self.framework.is_tracing

        def recording(original: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if is_tracing():  # nothing runs now
                    return original(*args, **kwargs)
                begin = clock_ns()
                try:
                    return original(*args, **kwargs)
                finally:
                    self.run_contained(where, record, args[0] if args else None, begin)

            return wrapper

        self.patch_function(where, owner, name, recording)
