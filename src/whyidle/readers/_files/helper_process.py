"""A helper process that decodes: a plain subprocess with frames over pipes. It needs no
``__main__`` guard in the caller's script, inherits no threads or locks, and ends with its pipe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from whyidle.readers._files.worker_ipc import Request, receive_value, send_value

_START = (
    "import sys; sys.path[:] = {path!r}; "
    "import importlib; importlib.import_module({module!r}).serve_requests()"
)
FAULTS = (OSError, EOFError, ValueError)
"""what a helper that dies leaves behind"""


class HelperProcess:
    """One helper, which has started and runs ``serve_requests`` of a module."""

    def __init__(self, module: str = "whyidle.readers._files.helper_server") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=sys.path, module=module)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def ask(self, request: Request) -> Any:
        """Return the answer to a request.

        Raises:
            OSError, EOFError, ValueError: the process has died.
        """
        send_value(self._requests, request)
        return receive_value(self._answers)

    def kill(self) -> None:
        """End the process; whoever waits for its answer reaches the end of the pipe."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes, when nobody waits for an answer any more."""
        with contextlib.suppress(OSError):  # a request that the process did not take
            self._requests.close()
        self._answers.close()


def usable_cores() -> int:
    """Return on how many cores this process may run."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def text_bytes(path: Path, size: int) -> int:
    """Return the likely size of the text in a file of ``size`` bytes."""
    # packed traces shrink 10 to 30 times
    return size * (15 if path.suffix.lower() in {".gz", ".zip"} else 1)
