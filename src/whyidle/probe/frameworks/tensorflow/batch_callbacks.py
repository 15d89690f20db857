"""Which callbacks of a ``fit`` look at every batch: several steps in one call would show them only
the last."""

from __future__ import annotations

from typing import Any

METHODS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
OF_KERAS = ("keras.", "tf_keras.")
RARELY = frozenset({"BackupAndRestore", "ModelCheckpoint", "TensorBoard"})
"""callbacks of Keras that look at batches only if asked to, by a number"""
QUIET = frozenset({"Callback", "CallbackList", "ProgbarLogger"})
FREQUENCIES = ("save_freq", "update_freq")
FIT_CALLBACKS = 5
"""position of the argument ``callbacks`` of ``fit``, after the model"""


def find_batch_callbacks(args: tuple[Any, ...], named: dict[str, Any]) -> list[str]:
    """Return the classes of the callbacks among the arguments of a ``fit`` that look at every
    batch."""
    given = named.get("callbacks", args[FIT_CALLBACKS] if len(args) > FIT_CALLBACKS else None)
    given = getattr(given, "callbacks", given)
    listed = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
    return list(dict.fromkeys(type(one).__name__ for one in listed if _looks_at_batches(one)))


def _looks_at_batches(callback: Any) -> bool:
    if any(name in getattr(callback, "__dict__", {}) for name in METHODS):
        return True  # LambdaCallback
    return any(_is_batchwise(callback, name) for name in METHODS)


def _is_batchwise(callback: Any, name: str) -> bool:
    kind = next((one for one in type(callback).__mro__ if name in vars(one)), None)
    if kind is None or (kind.__module__.startswith(OF_KERAS) and kind.__name__ in QUIET):
        return False
    if kind.__module__.startswith(OF_KERAS) and kind.__name__ in RARELY:
        return any(isinstance(getattr(callback, one, None), int) for one in FREQUENCIES)
    return True
