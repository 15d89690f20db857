"""Calls that another thread makes, one after the other, in the order in which they were asked for.

What they are given is as it was when they were asked for: numbers and text, copies of arrays and of
tensors (those of a device are fetched at once, as the call itself would have). An error is raised
by the next call; whoever needs the calls to be done waits for them; so does the end of the process.
"""

from __future__ import annotations

import atexit
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

PLAIN = (type(None), bool, int, float, complex, str, bytes)
MOST = 1000
"""calls that may be asked for and not made yet: another one waits"""
PARTING_S = 300.0
"""that the end of the process waits at most"""


class UnknownError(Exception):
    """It holds something that cannot be copied."""


class BackgroundCalls:
    """The thread, and what it has to do."""

    def __init__(self) -> None:
        self.calls: queue.Queue[tuple[Callable[..., Any], Any, Any]] = queue.Queue(MOST)
        self.thread: threading.Thread | None = None
        self.failed: Exception | None = None

    @property
    def is_own_thread(self) -> bool:
        """Whether this is the thread itself: what it calls calls others."""
        return threading.current_thread() is self.thread

    def enqueue_call(self, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Make this call; the arguments are copies already.

        Raises:
            Exception: what a call before this one raised.
        """
        self._raise_failure()
        if self.thread is None:
            atexit.register(self.end_thread)  # before what trackers have registered
            self.thread = threading.Thread(
                target=self._run_loop, name="whyidle reports", daemon=True
            )
            self.thread.start()
        self.calls.put((call, args, kwargs))

    def wait_until_done(self) -> None:
        """Until all is done.

        Raises:
            Exception: what one of the calls raised.
        """
        self.calls.join()
        self._raise_failure()

    def end_thread(self) -> None:
        """The process ends."""
        until = time.monotonic() + PARTING_S
        while self.calls.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.005)
        failed, self.failed = self.failed, None
        if failed is not None:
            print(f"whyidle: a report could not be made: {failed!r}", file=sys.stderr)

    def _raise_failure(self) -> None:
        failed, self.failed = self.failed, None
        if failed is not None:
            raise failed

    def _run_loop(self) -> None:
        while True:
            call, args, kwargs = self.calls.get()
            try:
                call(*args, **kwargs)
            except Exception as error:  # it is the script's, which is told at its next call
                self.failed = self.failed or error
            finally:
                del call, args, kwargs
                self.calls.task_done()


def copy_value(value: Any) -> Any:
    """As it is now, whatever becomes of it.

    Raises:
        UnknownError: it is of no kind that is copied.
    """
    import torch

    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple):
        return kind(copy_value(one) for one in value)
    if kind is dict:
        return {name: copy_value(one) for name, one in value.items()}
    if isinstance(value, torch.Tensor):
        found = value.detach()
        return found.clone() if found.device.type == "cpu" else found.cpu()
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return value.copy()
    if kind.__module__.startswith("mlflow.entities."):  # written once, where they are made
        return value
    raise UnknownError(f"{kind.__module__}.{kind.__qualname__}")
