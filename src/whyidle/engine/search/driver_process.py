"""Runs the rest of a command in a child process that a library may take down with it.

Ray ends the process that uses it when its head is lost. So that the user learns what happened and
what to do, whyidle lets a child of its own go on, and waits for it.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from whyidle.engine.search.trial_launcher import DEATH_SIGNAL, set_process_option
from whyidle.errors import TrialError

_GOOD_END = b"."


class DriverProcess:
    """The two sides of the fork; ``note_end`` is called in the child when it ends by itself."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self.pid = os.fork()
        if self.is_child:  # or it would go on where this process is killed
            set_process_option(DEATH_SIGNAL, signal.SIGKILL)

    @property
    def is_child(self) -> bool:
        """Whether this is the child, which goes on."""
        return self.pid == 0

    def note_end(self) -> None:
        """Note that the child reports its own result."""
        os.write(self._write, _GOOD_END)

    def wait_for_child(self, folder: str) -> int:
        """Wait in the parent for the child; return its exit status.

        Raises:
            TrialError: it did not end by itself.
        """
        os.close(self._write)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child hears it, too
        try:
            _, status = os.waitpid(self.pid, 0)
        finally:
            signal.signal(signal.SIGINT, before)
        with suppress(OSError):
            if os.read(self._read, 1) == _GOOD_END:
                return os.waitstatus_to_exitcode(status)
        raise TrialError(
            "Ray ended in the middle of the search.",
            why="Its head was stopped, or the connection to it was lost. What had ended is kept.",
            hint=f"whyidle tune --resume {folder}",
        )
