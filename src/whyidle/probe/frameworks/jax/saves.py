"""Records checkpoints: calls of the functions with which jobs of JAX save parameters."""

from __future__ import annotations

import functools
from typing import Any

from ... import wire
from ...core.events import Events
from ...core.import_hooks import call_after_import
from ...core.recorder import ANNOTATION
from ...core.span_hooks import record_calls

HOOK = "saves"
FUNCTIONS = (
    ("numpy", "savez", ""),
    ("numpy", "savez_compressed", ""),
    ("pickle", "dump", ""),
    ("flax.serialization", "to_bytes", ""),
    ("orbax.checkpoint._src.checkpointers.checkpointer", "Checkpointer", "save"),
    ("orbax.checkpoint.checkpoint_manager", "CheckpointManager", "save"),
)
"""module, function or class, method"""


def install_save_hooks(events: Events) -> None:
    """Record saves from now on, with modules that the job imports later."""
    for module, name, method in FUNCTIONS:
        where = f"{module}.{name}"
        watch = functools.partial(_watch, events, name, method)
        attach = functools.partial(events.run_contained, HOOK, watch)
        events.undo[where] = call_after_import(module, name, attach)


def _watch(events: Events, name: str, method: str, module: Any) -> None:
    owner, attribute = (getattr(module, name), method) if method else (module, name)
    where = f"{module.__name__}.{name}"
    label = ".".join(filter(None, (module.__name__.partition(".")[0], name, method)))
    events.patch_function(
        where, owner, attribute, record_calls(events, wire.CHECKPOINT, label, ANNOTATION, where)
    )
