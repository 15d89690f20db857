"""Who hears of what happens in the training process, and of what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Listener:
    """Hears of what happens in the training process. Subclasses override what they need.

    A fault in any method ends the listener, and is noted under its name.
    """

    listener = ""
    """its name, unique in the process"""
    wants_steps = False
    """whether ``on_step`` is to be called after every step"""
    wants_detail = False
    """whether ``on_batch_request`` to ``on_backward_end`` are to be called"""

    def on_batch_request(self) -> None:
        """The training thread asks for a batch."""

    def on_batch_ready(self, begin: int) -> None:
        """It has it; it asked at ``begin``, ns."""

    def on_batches_end(self) -> None:
        """It asked, and there are no more."""

    def on_backward_begin(self, args: tuple[Any, ...]) -> None:
        """A backward pass begins, with these arguments."""

    def on_backward_end(self, begin: int) -> None:
        """It is over; it began at ``begin``, ns."""

    def on_step(self, optimizer: Any) -> None:
        """An optimizer has stepped, on any thread; None: the script marked the end of a step."""

    def on_optimizer(self, label: str, optimizer: Any) -> None:
        """An optimizer has stepped for the first time."""

    def on_compilation(self, begin: int, end: int) -> None:
        """The framework has compiled code, on any thread, between these times, ns."""

    def on_training_begin(self, optimizer: Any) -> None:
        """The first step is over, and what is known of the process stands in the facts."""

    def on_look(self) -> None:
        """On the training thread, after a few of the steps (``LOOKS``)."""

    def on_sample(self) -> None:
        """On the sampler's thread, after each of its looks."""

    def on_chore(self) -> None:
        """On the sampler's thread, about once a second while the process trains."""

    def on_process_end(self) -> None:
        """The process ends, before its last records are written."""

    def stop_listening(self) -> None:
        """It hears of nothing any more."""


EVENTS = tuple(name for name in vars(Listener) if name.startswith("on_"))
Heard = tuple[tuple[str, Callable[..., None]], ...]
