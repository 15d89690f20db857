"""Runs a command whose processes all end when the runner ends, however it ends.

    python -m bench.gpu.leash FD [--linger FILE] COMMAND...

The runner holds the other end of the pipe FD: when that closes, even because the runner was killed,
every process below this one is killed. This process adopts what outlives its parent, so a process
with a session of its own ends as well. With ``--linger`` the command's end alone ends nothing: its
status is written to the file, and what it left is still there to be looked at.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

PR_SET_CHILD_SUBREAPER = 36
END_S = 10.0
"""for processes to be gone once they were killed"""


def start_leashed(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    linger: Path | None = None,
    **files: Any,
) -> tuple[subprocess.Popen[str], int]:
    """The leash, and the end of its pipe; closing that ends the command. ``files`` are
    ``stdout`` and ``stderr`` as of ``Popen``."""
    read, write = os.pipe()
    front = [sys.executable, str(Path(__file__).resolve()), str(read)]
    front += ["--linger", str(linger)] if linger else []
    try:
        process = subprocess.Popen(
            [*front, *words],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            pass_fds=(read,),
            **files,
        )
    except BaseException:
        os.close(write)
        raise
    finally:
        os.close(read)
    return process, write


def find_descendants(root: int) -> dict[int, str]:
    """The running processes below one, and their command lines; not those that have ended."""
    below = {}
    with suppress(psutil.Error):
        for process in psutil.Process(root).children(recursive=True):
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    below[process.pid] = " ".join(process.cmdline())
    return below


def kill_descendants() -> None:
    """Kill all processes below this one, and those that they start meanwhile."""
    end = time.monotonic() + END_S
    while (below := find_descendants(os.getpid())) and time.monotonic() < end:
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def main() -> None:
    fd, words = int(sys.argv[1]), sys.argv[2:]
    linger = None
    if words[0] == "--linger":
        linger, words = Path(words[1]), words[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def await_runner() -> None:
        select.select([fd], [], [])
        kill_descendants()
        os._exit(1)

    child = subprocess.Popen(words)
    watcher = threading.Thread(target=await_runner, daemon=True)
    watcher.start()
    status = child.wait()
    if linger is not None:
        linger.with_suffix(".draft").write_text(str(status), encoding="ascii")
        linger.with_suffix(".draft").replace(linger)
        watcher.join()
    kill_descendants()
    sys.stdout.flush()
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
