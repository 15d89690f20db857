"""Records what ``torch.compile`` does: each compilation and its reason.

Nothing is imported for this: a finder waits until the job itself imports Dynamo, and then wraps the
one function that every compilation calls. Compilations are rare and take milliseconds to minutes,
so each is recorded with its place and the compiler's own message.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType
from typing import Any

from ... import wire
from ...core.compilation_log import CompilationLog
from ...core.events import Events
from ...core.import_hooks import ModuleWaiter
from ...core.recorder import ANNOTATION, clock_ns
from ...core.wrapped_functions import set_attribute

MODULE = "torch._dynamo.convert_frame"
LATER = "whyidle::compile#later"
"""label of code compiled for an unknown function"""


class CompileRecorder(CompilationLog):
    """The compilations of one process."""

    def __init__(self, events: Events) -> None:
        super().__init__(events)
        self.begun = 0
        self.names: dict[str, tuple[str, str]] = {}
        """compiler's number of a compilation -> role and label"""

    def note_compilation(self, code: CodeType, number: Any, begin: int, failed: str | None) -> None:
        """Record a compilation, or its failure. ``number`` is the compiler's own."""
        key = (code.co_filename, code.co_firstlineno, code.co_name)
        reason = _recompile_reason(code) if key in self.seen else None
        self.names[str(number)] = self.add_compilation(key, begin, reason, failed)
        self.write_document()
        self._listen_elsewhere()

    # -- backward passes and CUDA graphs are compiled later, when they first run -----------------

    def _listen_elsewhere(self) -> None:
        """Also listen to compilations outside Dynamo (PyTorch >= 2.5). A reset of Dynamo removes
        listeners, so this is repeated after every compilation."""
        handler = _callback_handler()
        if hasattr(handler, "start_callbacks") and self._on_begin not in handler.start_callbacks:
            handler.register_start_callback(self._on_begin)
            handler.register_end_callback(self._on_end)

    def _on_begin(self, *args: Any) -> None:
        self.events.run_contained("compile later", self._note_begin, *args)

    def _note_begin(self, *args: Any) -> None:
        callbacks = sys.modules["torch._dynamo.callback"]
        of_dynamo = getattr(getattr(callbacks, "CallbackTrigger", None), "DYNAMO", None)
        is_dynamo = not args or getattr(args[0], "callback_trigger", of_dynamo) is of_dynamo
        self.begun = 0 if is_dynamo else clock_ns()

    def _on_end(self, *args: Any) -> None:
        self.events.run_contained("compile later", self._note_end, *args)

    def _note_end(self, *args: Any) -> None:
        begin, self.begun = self.begun, 0
        if begin:
            number = str(getattr(args[0], "compile_id", ""))
            role, name = self.names.get(number, (wire.COMPILE, LATER))
            self.events.add_span(role, name, ANNOTATION, begin)
            self.events.notify("on_compilation", begin, clock_ns())

    def stop_listening(self) -> None:
        """Remove the listeners."""
        handler = _callback_handler()
        if self._on_begin in getattr(handler, "start_callbacks", ()):
            handler.remove_start_callback(self._on_begin)
            handler.remove_end_callback(self._on_end)


def _callback_handler() -> Any:
    return getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)


def _recompile_reason(code: CodeType) -> Any:
    """Why a function was recompiled: the guard that failed."""
    utils = sys.modules.get("torch._dynamo.utils")
    metrics: list[Any] = getattr(utils, "get_compilation_metrics", list)()
    last: Any = metrics[-1] if metrics else None
    if getattr(last, "co_name", None) == code.co_name and hasattr(last, "recompile_reason"):
        return last.recompile_reason
    failures = getattr(utils, "guard_failures", {})  # until PyTorch 2.5
    return (failures.get(code) or [None])[-1]


def install_compile_hooks(events: Events) -> None:
    """Wrap the compiler when the job imports Dynamo."""
    loaded = sys.modules.get(MODULE)
    if loaded is not None:
        events.undo["compile"] = events.note_tracing
        events.run_contained("compile", _attach_hooks, events, loaded)
        return

    def wake(module: Any) -> None:
        waiter.stop_waiting()
        events.run_contained("compile", _attach_hooks, events, module)

    def undo() -> None:
        waiter.stop_waiting()
        events.note_tracing()

    waiter = ModuleWaiter(MODULE, wake)
    sys.meta_path.insert(0, waiter)
    events.undo["compile"] = undo


def _attach_hooks(events: Events, module: Any) -> None:
    compiler, original = CompileRecorder(events), module._compile

    @functools.wraps(original)
    def _compile(*args: Any, **kwargs: Any) -> Any:
        begin, failed = clock_ns(), None
        if "skip" in kwargs:  # number of frames that the compiler's log omits: one more now
            kwargs["skip"] += 1
        events.run_contained("compile", events.note_tracing)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            failed = type(error).__name__
            raise
        finally:
            code, number = args[0] if args else kwargs.get("code"), kwargs.get("compile_id")
            events.run_contained("compile", compiler.note_compilation, code, number, begin, failed)

    off = set_attribute(module, "_compile", _compile)

    def undo() -> None:
        off()
        compiler.stop_listening()
        events.note_tracing()

    events.undo["compile"] = undo
