"""The shells above a process of a trial: when it ends, they would go on with their next line.

That line may remove the machine that the job ran on. A shell which was not interrupted itself takes
the end of what was as any other end, so it is stopped beforehand, and killed with the trial.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

SHELLS = frozenset({"ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "zsh"})


def stop_shells(folder: str) -> None:
    """Stop those that belong to the trial of that recording. What launches ranks is left alone:
    ranks end the better for it."""
    mark = f"WHYIDLE_RUN={folder}".encode()
    with suppress(OSError, ValueError):  # no /proc, or somebody else's
        pid = os.getppid()
        while pid > 1:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark not in file.read().split(b"\0"):
                    return
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) in SHELLS:
                os.kill(pid, signal.SIGSTOP)
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
