"""Finds temporary folders whose creator was killed before it could remove them.

Each contains a file that identifies its creator. Since process ids are reused and differ between
containers, its start time, the boot id and the PID namespace are compared too.
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
    """Mark a folder as created by this process, if start times are available."""
    with suppress(OSError):
        document = {
            "pid": os.getpid(),
            "started": _process_start(os.getpid()),
            **_process_namespace(),
        }
        Path(folder, MAKER).write_text(json.dumps(document), encoding="utf-8")
    return Path(folder)


def find_stale(places: Sequence[str] = PLACES) -> list[Path]:
    """Marked folders of this user, directly in ``places``, whose creator is gone."""
    found = []
    for place in dict.fromkeys((*places, tempfile.gettempdir())):
        found += [folder for folder in _own_folders(place) if _is_maker_gone(folder)]
    return found


def _own_folders(place: str) -> Iterator[Path]:
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.geteuid():
                    yield Path(entry.path)


def _is_maker_gone(folder: Path) -> bool:
    path = folder / MAKER
    try:
        if path.is_symlink() or path.stat().st_uid != os.geteuid():
            return False
        document = json.loads(path.read_text(encoding="utf-8"))
        own_namespace = _process_namespace()
        if any(document[name] != own_namespace[name] for name in own_namespace):
            return False
        pid, started = int(document["pid"]), document["started"]
    except (OSError, ValueError, TypeError, KeyError):
        return False
    try:
        return _process_start(pid) != started
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _process_start(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()[19]


def _process_namespace() -> dict[str, str]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return {"boot": boot, "processes": str(Path("/proc/self/ns/pid").readlink())}
