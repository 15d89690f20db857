"""Checkpoints written by a thread, from a copy of what is saved in host memory.

``torch.save`` to a named file, and ``save_file`` of safetensors, return once the copy is made
(``_host_snapshot``); the thread then calls the same function with it (``_file_writer``). Code that
opens, lists, renames or queries the file waits until it is complete, as does the end of the
process. Saves to an open file, from another thread, with further options or without enough memory
run as before.
"""

from __future__ import annotations

import atexit
import functools
import io
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.import_hooks import call_after_import
from . import NO_FORM, KnobSession, _free_memory
from ._file_writer import FileWriter
from ._host_snapshot import Snapshot, UnknownError, register_tags

KNOB = "checkpoint.asynchronous"
SAFETENSORS = "safetensors.torch", "save_file"
COLLECTIVES = ("barrier", "monitored_barrier", "broadcast_object_list", "all_gather_object")
"""functions of ``torch.distributed`` after which other ranks may read the file"""
UNANNOUNCED = ("stat", "lstat", "access", "_exit")
"""functions of ``os`` for which there is no audit event"""
ABILITIES = (os.supports_dir_fd, os.supports_effective_ids, os.supports_follow_symlinks)
"""sets of functions of ``os`` that other modules consult before a call"""
RESERVE_BYTES = 1 << 20


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Let ``torch.save`` to a file return before the file is complete."""
    import torch

    session.decline_knobs([knob for knob in edits if knob != KNOB], NO_FORM)
    if not edits.get(KNOB):
        return
    register_tags()
    saves = BackgroundSaves(session)
    session.wait_for([KNOB], saves.explain_absence)
    session.replace_function(torch, "save", saves.wrap_save)
    adopt = functools.partial(session.run_contained, [KNOB], saves.adopt_safetensors)
    session.undo.append(call_after_import(*SAFETENSORS, adopt))
    for name in COLLECTIVES if torch.distributed.is_available() else ():
        session.replace_function(torch.distributed, name, saves.wrap_collective)
    for name in UNANNOUNCED:
        original = getattr(os, name)
        session.replace_function(os, name, saves.wrap_query)
        for known in ABILITIES:
            if original in known:
                known.add(getattr(os, name))
    session.undo.append(saves.writer.wait_all)
    atexit.register(saves.writer.wait_all)


class BackgroundSaves:
    """Replaces the functions that save, and those that must wait for a file."""

    def __init__(self, session: KnobSession) -> None:
        self.session = session
        self.writer = FileWriter()
        self.in_memory = False

    def explain_absence(self) -> str:
        """Why the thread has written nothing so far."""
        if self.in_memory:
            return (
                "torch.save wrote to memory, and other code wrote that to the disk; with "
                "Lightning, use Trainer(..., plugins=[AsyncCheckpointIO()])"
            )
        return "nothing was saved to a file by torch.save or safetensors while it ran"

    def wrap_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``torch.save``."""

        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            self.in_memory |= isinstance(f, io.BytesIO)
            if args or kwargs or not self._save_later(original, obj, f):
                return original(obj, f, *args, **kwargs)
            return None

        return save

    def adopt_safetensors(self, module: Any) -> None:
        """Wrap ``save_file`` of safetensors, once it is imported."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def save_file(tensors: Any, filename: Any, metadata: Any = None, **more: Any) -> Any:
                if not more and self.session.run_contained([KNOB], _is_flat, tensors, metadata):
                    texts = metadata if metadata is None else dict(metadata)
                    if self._save_later(
                        functools.partial(original, metadata=texts), tensors, filename
                    ):
                        return None
                return original(tensors, filename, metadata=metadata, **more)

            return save_file

        self.session.replace_function(module, SAFETENSORS[1], wrap)

    def wrap_collective(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function before which all files must be complete."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.writer.wait_all()
            return original(*args, **kwargs)

        return call

    def wrap_query(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function of ``os`` that queries a file or ends the process."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.writer.is_idle:
                path = args[0] if args else kwargs.get("path")
                if kwargs.get("dir_fd") is not None or original.__name__ == "_exit":
                    self.writer.wait_all()
                else:
                    self.session.run_contained([KNOB], self.writer.wait_for, path)
            return original(*args, **kwargs)

        return call

    def _save_later(self, write: Callable[[Any, Any], Any], obj: Any, f: Any) -> bool:
        """Hand a save to the thread; return whether that was possible.

        Raises:
            RuntimeError: an earlier file could not be written.
        """
        if not isinstance(f, (str, os.PathLike)) or self.session.is_child:
            return False
        self.writer.wait_for(f)
        if self.writer.failure:
            failure, self.writer.failure = self.writer.failure, ""
            raise RuntimeError(failure)
        with self.writer.bypass_waiting():
            return bool(
                self.session.run_contained([KNOB], self._submit_save, write, obj, os.fspath(f))
            )

    def _submit_save(self, write: Callable[[Any, Any], Any], obj: Any, name: str) -> bool:
        path = os.path.realpath(name)
        if threading.current_thread() is not threading.main_thread() or not _is_writable(path):
            return False
        try:
            snapshot = Snapshot(obj, _free_memory.free_bytes() // 2)
        except UnknownError as error:
            self.session.decline_knobs([KNOB], str(error))
            return False
        except Exception:  # raised by the script's own classes, and again by its own save
            return False
        if shutil.disk_usage(Path(path).parent).free < 1.1 * snapshot.size_bytes + RESERVE_BYTES:
            return False

        def write_draft(draft: str) -> None:
            try:
                write(snapshot.value, draft)
            finally:
                snapshot.forget_tags()

        self.writer.submit_write(path, write_draft)
        self.session.record_applied(KNOB)
        return True


def _is_writable(path: str) -> bool:
    """Whether a plain file can be written here; if not, the script's own call raises."""
    if not os.access(Path(path).parent, os.W_OK | os.X_OK):
        return False
    return os.access(path, os.W_OK) if os.path.isfile(path) else not os.path.lexists(path)


def _is_flat(tensors: Any, metadata: Any) -> bool:
    """Whether safetensors accepts this: dense tensors that share no memory, and text."""
    import torch

    texts = {} if metadata is None else metadata
    if type(tensors) is not dict or type(texts) is not dict:
        return False
    if not all(type(value) is str for value in (*tensors, *texts, *texts.values())):
        return False
    storages = set()
    for value in tensors.values():
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            return False
        if not value.is_contiguous() or value.is_complex() or value.is_quantized or value.is_meta:
            return False
        storages.add((value.device, value.untyped_storage().data_ptr()))
    return len(storages) == len(tensors)
