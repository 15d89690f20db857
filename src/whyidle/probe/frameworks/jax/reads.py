"""Records where the thread that trains waits for the value of an array of JAX."""

from __future__ import annotations

import functools
from typing import Any

from ...core.events import Events
from ...core.host_reads import HOOK, HostReads
from ...core.wrapped_functions import set_attribute
from ..keras_hooks import after_import
from .compiled_calls import CompiledCalls

VALUE, WAIT = "ArrayImpl._value", "jax.block_until_ready"
LOGS = ("keras.src.utils.python_utils", "pythonify_logs")
"""Keras reads the numbers of a step for its callbacks; on a CPU past ``ArrayImpl._value``"""


def install_read_hooks(events: Events, jax: Any, calls: CompiledCalls) -> None:
    """Watch the functions through which the value of an array reaches Python."""
    from jax._src.array import ArrayImpl

    reads, calls.wait = HostReads(events, calls.note_read), ArrayImpl.block_until_ready
    undoes = []
    value = vars(ArrayImpl).get("_value")
    if isinstance(value, property) and value.fget is not None:
        watched = property(reads.watch(value.fget, VALUE), value.fset, value.fdel, value.__doc__)
        undoes.append(set_attribute(ArrayImpl, "_value", watched))
    for owner, name in ((ArrayImpl, "block_until_ready"), (jax, "block_until_ready")):
        if hasattr(owner, name):
            original = getattr(owner, name)
            undoes.append(set_attribute(owner, name, reads.watch(original, WAIT)))

    def watch_logs(loaded: Any) -> None:
        watch = functools.partial(reads.watch, label=LOGS[1])
        events.patch_function(LOGS[1], loaded, LOGS[1], watch)

    after_import(events, *LOGS, watch_logs, "jax")
    events.undo[HOOK] = lambda: [undo() for undo in undoes]
