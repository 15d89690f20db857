"""What is installed in the process: hooks, what takes them off, and listeners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..wire import ProcessFacts
from . import containment
from .listener import EVENTS, Heard, Listener
from .patching import Wrap, replace_function
from .recorder import Recorder, clock_ns


class Framework(Protocol):
    """What ``Events`` asks of a framework."""

    is_tracing: Callable[[], bool]
    """whether the calling code is being traced by the framework's compiler, rather than run"""
    backward_label: str

    def name_batch(self, iterator: type) -> tuple[str, str]:
        """Role and label of the batches that iterators of this class hand over."""

    def name_optimizer(self, optimizer: Any) -> str:
        """Label of an optimizer's steps."""

    def describe_process(self) -> ProcessFacts | None:
        """What holds for the process whether it trains or not; None where nothing can be said."""

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """What is known when the process begins to train. ``optimizer`` is None where the framework
        has none."""


class HotSlots:
    """What hooks read in every step. A base class, for its slots come first in memory."""

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
    """keeps a span of the home thread: its tag, begin and end"""
    asks: Callable[[], bool] | None
    """whether a hook is being traced; None until the framework's compiler is used, as asking takes
    its time"""
    careful: bool
    """whether there may be more to do than to keep spans"""
    due: int
    """the step after which there is"""
    home: int
    """the thread whose spans are kept the short way"""
    backward: int
    """the tag of backward passes"""
    iterator: type | None
    """the class of the last iterator, and the tag of its batches"""
    batch: int
    lead: int | None
    """the id of the optimizer that steps first, and the tag of its steps"""
    named: int
    steps: int
    """of all optimizers"""


class HookRegistry(HotSlots):
    """The hooks and listeners of one process."""

    __slots__ = ("framework", "heard", "listeners", "off", "recorder", "undo")

    def __init__(self, recorder: Recorder, framework: Framework) -> None:
        self.recorder, self.framework = recorder, framework
        self.undo: dict[str, Callable[[], Any]] = {}
        """takes off what is installed, by its name"""
        self.off: set[str] = set()
        """hooks that failed: one that still lies below somebody else's only passes on"""
        self.listeners: tuple[Listener, ...] = ()
        self.heard: dict[str, Heard] = dict.fromkeys(EVENTS, ())
        """who hears of each event: the listener's name and its method"""

    # -- listeners ----------------------------------------------------------------------------

    def add_listener(self, listener: Listener) -> None:
        """Have a listener hear of what it overrides, until ``undo`` of its name is called."""

        def unsubscribe() -> None:
            self._set_listeners([one for one in self.listeners if one is not listener])
            listener.stop_listening()

        self._set_listeners([*self.listeners, listener])
        self.undo[listener.listener] = unsubscribe

    def _set_listeners(self, listeners: list[Listener]) -> None:
        self.listeners = tuple(listeners)
        for event in EVENTS:
            silent = getattr(Listener, event)
            self.heard[event] = tuple(
                (one.listener, getattr(one, event))
                for one in listeners
                if getattr(type(one), event) is not silent
            )
        self.be_careful()

    def notify(self, event: str, *args: Any) -> None:
        """Tell the listeners of an event."""
        for where, hear in self.heard[event]:
            self.run_contained(where, hear, *args)

    def be_careful(self) -> None:
        """There may be more to do in hooks than to record. From any thread."""
        self.careful, self.due = True, 0

    # -- faults and patches -------------------------------------------------------------------

    def run_contained(self, where: str, work: Callable[..., Any], *args: Any) -> None:
        """A hook's work, none of whose faults reaches the job."""
        try:
            if where not in self.off:
                work(*args)
        except Exception as error:  # contained, counted, and the hook taken off
            self.report_failure(where, error)

    def report_failure(self, where: str, error: Exception) -> None:
        """A hook of ours failed: it comes off, unless the job is at its limit."""
        if not isinstance(error, (RecursionError, MemoryError)):
            self.remove_faulty(where, error)

    def remove_faulty(self, where: str, error: BaseException) -> None:
        """A hook of ours failed: it comes off."""
        containment.contain_fault(self.recorder.folder, where, error, lambda: self._take_off(where))

    def _take_off(self, where: str) -> None:
        """Where a hook cannot come off, it shall not fail in every step."""
        undo = self.undo.pop(where, None)
        if undo is not None:
            self.off.add(where)
            undo()

    def patch_function(self, where: str, owner: Any, name: str, wrap: Wrap) -> None:
        """Replace ``owner.name`` by what ``wrap`` makes of it; ``where`` takes it off again."""
        self.undo[where] = replace_function(owner, name, wrap)

    def patch_call(
        self, where: str, owner: Any, name: str, record: Callable[[Any, int], None]
    ) -> None:
        """Report every call of ``owner.name``: ``record(first argument, begin)`` after it."""
        is_tracing = self.framework.is_tracing

        def recording(original: Callable[..., Any]) -> Callable[..., Any]:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if is_tracing():  # then there is nothing to see in here
                    return original(*args, **kwargs)
                begin = clock_ns()
                try:
                    return original(*args, **kwargs)
                finally:
                    self.run_contained(where, record, args[0] if args else None, begin)

            return wrapper

        self.patch_function(where, owner, name, recording)
