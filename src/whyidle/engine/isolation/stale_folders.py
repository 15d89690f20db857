"""Scratch folders of ours whose maker was killed before it could remove them.

Each carries a file that says who made it. A process id alone may have been given to somebody else
since, or mean another process in another container that shares the folder: so the time at which the
process was started, the machine's start and the table of processes are compared, too.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

MAKER = ".made-by.json"
PREFIX = "whyidle-"
PLACES = ("/tmp", "/var/tmp", "/dev/shm")


def mark_folder(folder: str | Path) -> Path:
    """Write down that we made this folder; where the system tells no start times, nothing."""
    with suppress(OSError):
        told = {"pid": os.getpid(), "started": _process_start(os.getpid()), **_process_namespace()}
        Path(folder, MAKER).write_text(json.dumps(told), encoding="utf-8")
    return Path(folder)


def find_stale(places: Sequence[str] = PLACES) -> list[Path]:
    """Marked folders of this user's whose maker is gone, directly in one of ``places`` or in the
    folder for temporary files."""
    found = []
    for place in dict.fromkeys((*places, tempfile.gettempdir())):
        found += [folder for folder in _own_folders(place) if _is_maker_gone(folder)]
    return found


def _own_folders(place: str) -> Iterator[Path]:
    with suppress(OSError), os.scandir(place) as entries:
        for each in entries:
            if each.name.startswith(PREFIX) and each.is_dir(follow_symlinks=False):
                told = each.stat(follow_symlinks=False)
                if told.st_uid == os.geteuid():
                    yield Path(each.path)


def _is_maker_gone(folder: Path) -> bool:
    path = folder / MAKER
    try:
        if path.is_symlink() or path.stat().st_uid != os.geteuid():
            return False
        told = json.loads(path.read_text(encoding="utf-8"))
        here = _process_namespace()
        if any(told[name] != here[name] for name in here):
            return False
        pid, started = int(told["pid"]), told["started"]
    except (OSError, ValueError, TypeError, KeyError):
        return False
    try:
        return _process_start(pid) != started
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _process_start(pid: int) -> str:
    """When a process was started, in ticks since the machine was."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()[19]


def _process_namespace() -> dict[str, str]:
    """Within which a process id means the same."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return {"boot": boot, "processes": str(Path("/proc/self/ns/pid").readlink())}
