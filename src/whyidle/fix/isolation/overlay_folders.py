"""Creates folders in an overlay in advance, for user namespaces.

In a user namespace only the own user and group exist, and the kernel does not copy folders of other
owners into the overlay, so nothing below them could be written.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path

from whyidle.fix.isolation.mounts import is_inside

MOST_LOOKED_AT = 20_000  # entries examined below the working folder


def folders_needed() -> list[Path]:
    """Folders in which a job probably writes: the working folder, folders of other owners in it,
    the home folder, and the folder for temporary files."""
    here = Path.cwd()
    places = [here, Path.home().resolve(), Path(tempfile.gettempdir()).resolve()]
    return [each for each in places if each.is_dir()] + _of_others(here)


def _of_others(top: Path) -> list[Path]:
    found, waiting, left = [], deque([top]), MOST_LOOKED_AT
    own = (os.geteuid(), os.getegid())
    while waiting and left > 0:
        folder = waiting.popleft()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                if not entry.is_dir(follow_symlinks=False):
                    continue
                waiting.append(Path(entry.path))
                status = entry.stat(follow_symlinks=False)
                if (status.st_uid, status.st_gid) != own:
                    found.append(Path(entry.path))
    return found


def build_folders(upper: Path, folder: str, goals: list[Path]) -> None:
    """Create those of ``goals`` inside ``folder`` in its upper folder, and copy ownership."""
    for goal in goals:
        if is_inside(str(goal), folder):
            (upper / goal.relative_to(folder)).mkdir(parents=True, exist_ok=True)
    for made, _, _ in os.walk(upper, topdown=False):  # bottom up: some become inaccessible
        copy_ownership(Path(made), Path(folder, Path(made).relative_to(upper)))


def copy_ownership(upper: Path, folder: Path) -> None:
    """Copy owner and mode of the lower folder to the upper one, which determines them in the
    overlay; if the owner cannot be set, copy the effective permissions."""
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    try:
        os.chown(upper, status.st_uid, status.st_gid)
    except OSError:
        with suppress(OSError):
            os.chown(upper, -1, status.st_gid)
        if status.st_uid != os.geteuid() and not os.access(folder, os.W_OK):
            mode &= ~0o222
    upper.chmod(mode)
