"""The events of a training process, as methods of their listeners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Listener:
    """Receives the events of a training process. Subclasses override the methods they need; a fault
    in one removes the listener and is recorded under its name."""

    listener = ""
    """name, unique in the process"""
    wants_steps = False
    """whether to call ``on_step`` after every step"""
    wants_detail = False
    """whether to call ``on_batch_request`` to ``on_backward_end``"""
    wants_longer = False
    """whether a job that runs for a look's sake should go on"""

    def on_batch_request(self) -> None:
        """The training thread requests a batch."""

    def on_batch_ready(self, begin: int) -> None:
        """The batch requested at ``begin`` (ns) is ready."""

    def on_iterator(self, iterator: Any) -> None:
        """A batch was taken from this iterator."""

    def on_batches_end(self) -> None:
        """A batch was requested and the iterator is exhausted."""

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """A backward pass begins, with these arguments."""

    def on_backward_end(self, begin: int) -> None:
        """The backward pass that began at ``begin`` (ns) is over."""

    def on_step(self, optimizer: Any) -> None:
        """An optimizer has stepped, on any thread; None: the script marked the end of a step."""

    def on_optimizer(self, label: str, optimizer: Any) -> None:
        """An optimizer has stepped for the first time."""

    def on_compilation(self, begin: int, end: int) -> None:
        """The framework has compiled code, on any thread, between these times, ns."""

    def on_training_begin(self, optimizer: Any) -> None:
        """The first step is over and the facts of the process are filled in."""

    def on_look(self) -> None:
        """Runs on the training thread after selected steps (``LOOKS``)."""

    def on_sample(self) -> None:
        """Runs on the sampler's thread after each sample."""

    def on_chore(self) -> None:
        """Runs on the sampler's thread about once a second while the process trains."""

    def on_process_end(self) -> None:
        """The process ends, before its last records are written."""

    def stop_listening(self) -> None:
        """The listener was removed."""


EVENTS = tuple(name for name in vars(Listener) if name.startswith("on_"))
Heard = tuple[tuple[str, Callable[..., None]], ...]
