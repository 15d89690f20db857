"""Records checkpoints: ``torch.save``, safetensors, and syncing or renaming the file."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.import_hooks import call_after_import
from ...core.recorder import ANNOTATION, clock_ns
from ...core.span_hooks import record_calls
from ...core.wrapped_functions import Wrap

cpu = time.thread_time_ns

MOST_SAVES = 50
SURE = ("fsync", "replace", "rename")
"""functions of ``os`` that belong to a checkpoint if they follow one in the same step: they write
the file to disk and replace the previous one"""
SPAN = "save_checkpoint"
FLAT = "safetensors.torch"
"""Hugging Face saves models with its ``save_file``; ``save_model`` calls it"""
MEMORY = "<memory>"
"""path of a save to memory that other code writes to a file, as Lightning does. Noted only if there
are no saves to files, as jobs also copy and send models through memory"""


class CheckpointHooks:
    """Records the saves of one process."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.noted: list[dict[str, Any]] = []
        events.live_facts["saves"] = lambda: list(self.noted)
        self.last: tuple[int, int] | None = None
        """step and thread of the last save"""

    def install_hooks(self, torch: Any) -> None:
        """Wrap the functions that save."""
        self.events.patch_function("save", torch, "save", self.wrap_save)
        leave = call_after_import(FLAT, "save_file", self._wrap_safetensors)
        self.events.undo.setdefault(FLAT, leave)
        for name in SURE:
            self.events.patch_function(f"os.{name}", os, name, self.wrap_completion(f"os.{name}"))
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _wrap_safetensors(self, module: Any) -> None:
        """Wrap safetensors when it is imported, perhaps long after the rest."""
        self.events.run_contained(
            FLAT, self.events.patch_function, FLAT, module, "save_file", self.wrap_save
        )

    def _reset_after_fork(self) -> None:
        """Forget the parent's save: a child never steps, so all its renames would belong to it."""
        self.last = None

    def wrap_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a save and note the size of the file."""
        timed = record_calls(self.events, wire.CHECKPOINT, SPAN, ANNOTATION, "save")(original)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            begin, worked = clock_ns(), cpu()
            try:
                return timed(*args, **kwargs)
            finally:
                self.last = self.events.steps, threading.get_ident()
                name = "filename" if "filename" in kwargs else "f"
                target = kwargs.get(name, args[1] if len(args) > 1 else None)
                self.events.run_contained(
                    "save", self.note_file, target, clock_ns() - begin, cpu() - worked
                )

        return wrapper

    def note_file(self, target: Any, took: int, worked: int) -> None:
        """Note a file that was saved by name or as an open file, with the time and CPU time, ns."""
        named = isinstance(target, (str, os.PathLike))
        unnamed = MEMORY if isinstance(target, io.BytesIO) else None
        path = os.fspath(target) if named else getattr(target, "name", unnamed)
        if not isinstance(path, str):
            return
        noted = self.noted
        files = [save for save in noted if save["path"] != MEMORY]
        if len(noted if path == MEMORY else files) >= MOST_SAVES or (path == MEMORY and files):
            return
        size = None
        with suppress(AttributeError, OSError, ValueError):  # a pipe, or another named object
            # bypass the knob that waits until the file is complete
            stat = getattr(os.stat, "__wrapped__", os.stat)
            size = stat(path).st_size if named else target.tell()
        saved = {"path": path, "bytes": size, "seconds": took / 1e9, "cpu_s": worked / 1e9}
        noted[:] = [*(noted if path == MEMORY else files), saved]

    def wrap_completion(self, where: str) -> Wrap:
        """Wrap a function that is part of a save if this thread saved in the current step."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            timed = record_calls(self.events, wire.CHECKPOINT, SPAN, ANNOTATION, where)(original)

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                mine = self.last == (self.events.steps, threading.get_ident())
                return (timed if mine else original)(*args, **kwargs)

            return wrapper

        return wrap


def install_checkpoint_hooks(events: Events) -> None:
    """Record checkpoints."""
    import torch

    CheckpointHooks(events).install_hooks(torch)
