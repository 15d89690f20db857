"""Checkpoints that another process writes: a forked copy of this one, as it was at that moment.

The copy shares all memory until somebody writes to it, so nothing is copied ahead, and it has an
interpreter of its own. What lies on a device is copied to the host first (``_state``). The file
takes its place when it is whole, so at any time there is the one before or the new one. Whoever
opens, asks for or removes it, or starts a program, waits until then (``_waiting``); so does the end
of the process. Renaming it, as careful scripts do, is left to another copy, and a file that they
have opened themselves is written like a named one (``_opened``). Where a copy could not do the
same, the script writes as it always did. So it is with ``save_file`` of safetensors (``_flat``).
"""

from __future__ import annotations

import atexit
import builtins
import functools
import io
import os
import shutil
import threading
from collections.abc import Callable
from typing import Any

from ..core.import_hooks import once_there
from . import NO_FORM, DeclinedError, Hand, _flat, _memory
from ._opened import Opened, put
from ._state import State, UnknownError, state_of
from ._waiting import Waiting
from ._writers import Writers

KNOB = "checkpoint.asynchronous"
MEETINGS = ("barrier", "monitored_barrier", "broadcast_object_list", "all_gather_object")
"""after these other ranks may read what one of them has saved"""


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Have ``torch.save`` to a file return at once."""
    import torch

    hand.decline([knob for knob in edits if knob != KNOB], NO_FORM)
    if not edits.get(KNOB):
        return
    if not hasattr(os, "fork"):
        raise DeclinedError("this system cannot fork a process")
    saves = Saves(hand, {KNOB: True})
    hand.waits([KNOB], saves.why)
    hand.replace(torch, "save", saves.wrap)
    adopt = functools.partial(hand.contained, [KNOB], _flat.adopt, hand, saves.wrap)
    leave = once_there(_flat.MODULE, _flat.NAME, adopt)
    hand.undo.append(leave)
    for owner in (builtins, io):
        hand.replace(owner, "open", saves.waiting.files.wrap)
    for name in MEETINGS if torch.distributed.is_available() else ():
        hand.replace(torch.distributed, name, saves.waiting.before)
    hand.undo.append(saves.waiting.end)
    atexit.register(saves.waiting.end)


class Saves:
    """What stands for ``torch.save``."""

    def __init__(self, hand: Hand, edits: dict[str, Any]) -> None:
        self.hand = hand
        self.edits = edits
        self.writers = Writers()
        self.waiting = Waiting(hand, self.writers, edits)
        self.in_memory = False

    def why(self) -> str:
        """What it still waits for."""
        if self.in_memory:
            return (
                "torch.save wrote to memory, and something else brought that to the disk; with "
                "Lightning, Trainer(..., plugins=[AsyncCheckpointIO()]) has a thread do it"
            )
        return "nothing was saved to a file by torch.save or safetensors while it ran"

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Write beside the training where that is possible."""

        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            write = functools.partial(_original, original, args, kwargs)
            self.in_memory |= isinstance(f, io.BytesIO)
            if not isinstance(f, (str, os.PathLike, Opened)) or self.hand.child:
                return write(obj, f)
            self.waiting.on(_name(f))
            if self.writers.failed:
                told, self.writers.failed = self.writers.failed, ""
                raise RuntimeError(told)
            if self.hand.contained(self.edits, self._beside, write, obj, f):
                return None
            return write(obj, f)

        return save

    def _beside(self, write: Callable[[Any, Any], Any], obj: Any, f: Any) -> bool:
        """Whether it is being written by another process now."""
        path = os.path.realpath(_name(f))
        if isinstance(f, Opened) and not f.fresh():
            return False
        state = _possible(self.hand, self.edits, path, obj)
        if state is None:
            return False

        def in_copy(draft: str) -> None:
            state.as_it_was()
            if isinstance(f, Opened):
                put(write, state.value, draft, path)
            else:
                write(state.value, draft)

        try:
            self.waiting.begin()
            self.writers.begin(path, in_copy)
        except OSError as error:
            self.hand.decline(self.edits, f"no copy of the process can be made: {error}")
            return False
        if isinstance(f, Opened):
            self.waiting.files.begin(f)
        self.hand.took(*self.edits)
        return True


def _name(f: Any) -> str:
    return f.path if isinstance(f, Opened) else os.fspath(f)


def _original(original: Callable[..., Any], args: Any, kwargs: Any, obj: Any, f: Any) -> Any:
    return original(obj, f, *args, **kwargs)


def _possible(hand: Hand, edits: dict[str, Any], path: str, obj: Any) -> State | None:
    """What is to be saved, for another process; None where the script has to write it itself."""
    if threading.current_thread() is not threading.main_thread():
        return None  # the other thread is in the midst of something
    folder = os.path.dirname(path)
    plain = os.path.isfile(path) or not os.path.lexists(path)
    if not plain or not os.access(folder, os.W_OK | os.X_OK):
        return None  # and it says what is wrong as it always did
    if os.path.exists(path) and not os.access(path, os.W_OK):
        return None
    try:
        state = state_of(obj)
    except UnknownError as error:
        hand.decline(edits, str(error))
        return None
    if shutil.disk_usage(folder).free < 1.1 * state.size + (1 << 20):
        return None
    if _memory.free_bytes() < 2 * state.size:
        hand.decline(edits, "there is too little memory for a second copy of what is saved")
        return None
    return state
