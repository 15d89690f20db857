"""Records what XLA compiles, how long that takes, and which argument made a function compile again.

``jax.monitoring`` reports durations; it says nothing where a compiled function is found. The reason
is JAX's own explanation of a cache miss, which it logs on request: a filter on its logger keeps the
text from the job's output. Other versions word it otherwise, and then no reason is recorded.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from ...core.compilation_log import CompilationLog, shorten_text
from ...core.events import Events
from ...core.recorder import clock_ns
from .compiled_calls import CompiledCall, CompiledCalls

HOOK, REASONS = "compilation", "reasons to compile"
EXPLAIN, MISS = "jax_explain_cache_misses", "TRACING CACHE MISS"
CACHED = ("PERSISTENT COMPILATION CACHE MISS", "Writing %s to persistent", "Not writing persistent")
"""what the same switch makes the persistent cache log"""
LOGGERS = tuple(
    f"jax._src.{name}"
    for name in ("interpreters.partial_eval", "pjit", "compiler", "compilation_cache")
)
STAGES = "/jax/core/compile/"
SHORT_NS = 1_000_000
"""shorter compilations of what JAX itself compiles are not recorded"""


class Compilations(CompilationLog):
    """The compilations of one process."""

    def __init__(self, events: Events, calls: CompiledCalls, config: Any) -> None:
        super().__init__(events)
        self.calls, self.config = calls, config
        self.reason: str | None = None
        self.begun: dict[int, tuple[int, int]] = {}
        """thread -> when its first stage began and its last compiler pass ended; 0: not yet"""

    def note_stage(self, name: str, seconds: float, **about: Any) -> None:
        """Note a stage of a compilation, which ends now, as ``jax.monitoring`` reports it."""
        if not name.startswith(STAGES) or HOOK in self.events.off:
            return
        self.events.run_contained(HOOK, self._note_stage, name, seconds, about.get("fun_name"))

    def _note_stage(self, name: str, seconds: float, function: str | None) -> None:
        own, end = threading.get_ident(), clock_ns()
        begin, _ = self.begun.get(own, (end - int(seconds * 1e9), 0))
        compiled = "backend_compile" in name
        self.begun[own] = begin, end if compiled else 0
        if compiled and own not in self.calls.outer:
            del self.begun[own]  # of an operator, or ahead of time
            if end - begin > SHORT_NS and not self.config.jax_disable_jit:
                unnamed = f"operator {self.count + 1}"  # JAX before 0.5 names none
                self._record(("", 0, function or unnamed), begin, end)

    def end_call(self, call: CompiledCall) -> None:
        """Record what was compiled in a call that ends now."""
        begin, end = self.begun.pop(threading.get_ident(), (0, 0)) if self.begun else (0, 0)
        if end:  # else it was only traced
            self.events.run_contained(HOOK, self._record_call, call, begin, end)

    def _record_call(self, call: CompiledCall, begin: int, end: int) -> None:
        code = getattr(call.source, "__code__", None)
        place = (code.co_filename, code.co_firstlineno) if code else ("", 0)
        self._record((*place, call.name), begin, end)

    def _record(self, key: tuple[str, int, str], begin: int, end: int) -> None:
        reason, self.reason = self.reason, None
        self.add_compilation(key, begin, reason, end=end)
        self.write_document()

    def note_reason(self, text: str) -> None:
        """Keep JAX's explanation of a cache miss for the compilation that follows."""
        lines = [line.strip(" *") for line in text.splitlines()[1:]]
        marks = ("at ", "but seen another function", "now ")
        reason = next((line for line in lines if line.startswith(marks)), " ".join(lines[-2:]))
        self.reason = shorten_text(reason)


class ReasonFilter(logging.Filter):
    """Hands JAX's explanations on; they stay in the log only if the job wants them there."""

    def __init__(self, compilations: Compilations, wanted: bool) -> None:
        super().__init__()
        self.compilations, self.wanted = compilations, wanted

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every other record."""
        text = str(record.msg)
        if text.startswith(CACHED):
            return self.wanted
        if not text.startswith(MISS):
            return True
        events = self.compilations.events
        events.run_contained(REASONS, self.compilations.note_reason, record.getMessage())
        return self.wanted


def install_compile_hooks(events: Events, jax: Any, calls: CompiledCalls) -> None:
    """Record all compilations from now on."""
    compilations = Compilations(events, calls, jax.config)
    calls.after_call = compilations.end_call
    jax.monitoring.register_event_duration_secs_listener(compilations.note_stage)
    events.undo[HOOK] = lambda: _stop_listening(jax, compilations)
    events.run_contained(REASONS, _ask_reasons, events, jax, compilations)


def _stop_listening(jax: Any, compilations: Compilations) -> None:
    stop = getattr(jax.monitoring, "unregister_event_duration_listener", None)
    if stop is not None:
        stop(compilations.note_stage)
    compilations.calls.after_call = None


def _ask_reasons(events: Events, jax: Any, compilations: Compilations) -> None:
    wanted = bool(getattr(jax.config, EXPLAIN))
    reasons = ReasonFilter(compilations, wanted)
    for name in LOGGERS:
        logging.getLogger(name).addFilter(reasons)
    jax.config.update(EXPLAIN, True)

    def undo() -> None:
        jax.config.update(EXPLAIN, wanted)
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(reasons)

    events.undo[REASONS] = undo
