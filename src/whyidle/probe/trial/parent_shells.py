"""Stops the shells that started a process of a trial, before it ends.

Otherwise they would run the next line of their script, which may shut down the machine: a shell
that was not interrupted itself takes an interrupted command as finished. The trial later kills the
stopped shells.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

SHELLS = frozenset({"ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "zsh"})


def stop_shells(folder: str) -> None:
    """Stop the parent shells that belong to this trial. Launchers of ranks keep running, as they
    end their ranks in order."""
    mark = f"WHYIDLE_RUN={folder}".encode()
    with suppress(OSError, ValueError):  # no /proc, or a process of another user
        pid = os.getppid()
        while pid > 1:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark not in file.read().split(b"\0"):
                    return
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) in SHELLS:
                os.kill(pid, signal.SIGSTOP)
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
