"""What a sleeping thread waits for, by the function of the kernel in which it sleeps
(``/proc/PID/task/TID/wchan``, proc_pid_wchan(5)), and which files a process has open.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_KINDS: Final = (
    ("a lock", r"futex"),
    ("a sleep", r"nanosleep"),
    ("a file lock", r"locks_lock|posix_lock|fcntl_setlk|nlmclnt"),
    ("a child process", r"do_wait|kernel_wait"),
    ("a pipe", r"pipe_|_pipe|wait_for_partner"),
    ("the network", r"tcp_|udp_|inet_|unix_|sk_|skb_|sock"),
    ("a message", r"poll|select"),
    ("storage", r"io_schedule|folio|page|nfs|rpc_|fuse|request_wait_answer|ceph|^ll_|cl_|blk_|bio"),
)
"""word, and functions of Linux 4 to 6. The futex is what locks, conditions and joins of threads are
made of; pipes and sockets that are polled carry messages of other processes"""


def wait_of(folder: Path) -> str | None:
    """What the thread of ``/proc/PID/task/TID`` waits for: one of the words above; None: it is
    awake, has ended, or the kernel does not tell."""
    try:
        state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
        where = (folder / "wchan").read_text(encoding="ascii")
    except (OSError, IndexError, ValueError):
        return None
    if state not in (b"S", b"D"):
        return None
    known = next((word for word, names in _KINDS if re.search(names, where)), None)
    return known or ("storage" if state == b"D" else None)


def open_files(folder: Path) -> list[str]:
    """The names of the files that the process of ``/proc/PID`` has open."""
    names = []
    with suppress(OSError):  # it has ended, or is another user's
        for link in (folder / "fd").iterdir():
            with suppress(OSError):  # it was closed meanwhile
                names.append(str(link.readlink()))
    return names
