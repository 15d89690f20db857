"""Folders that an overlay needs in advance, where a user namespace keeps it from copying them.

Within such a namespace only our own user and group exist, and the kernel copies nothing of anybody
else's into an overlay: no folder, so nothing below it could be written either.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path

from whyidle.engine.isolation.mounts import is_inside

MOST_LOOKED_AT = 20_000
"""files and folders below the working folder"""


def folders_needed() -> list[Path]:
    """The folders that a job most likely writes in, which come with all above them: the working
    folder, others' folders near the top of it, the home folder, and the one for temporary files."""
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
                told = entry.stat(follow_symlinks=False)
                if (told.st_uid, told.st_gid) != own:
                    found.append(Path(entry.path))
    return found


def build_folders(upper: Path, folder: str, goals: list[Path]) -> None:
    """Make those of ``goals`` that lie in ``folder`` in its upper folder, and dress all of it."""
    for goal in goals:
        if is_inside(str(goal), folder):
            (upper / goal.relative_to(folder)).mkdir(parents=True, exist_ok=True)
    for made, _, _ in os.walk(upper, topdown=False):  # from within: some will be closed to us
        copy_ownership(Path(made), Path(folder, Path(made).relative_to(upper)))


def copy_ownership(upper: Path, folder: Path) -> None:
    """An overlay's top folder is what the upper one is: give it the owner and the rights of the
    lower one, or, where the owner cannot be had, the rights that we have there."""
    told = folder.stat()
    mode = stat.S_IMODE(told.st_mode)
    try:
        os.chown(upper, told.st_uid, told.st_gid)
    except OSError:
        with suppress(OSError):
            os.chown(upper, -1, told.st_gid)
        if told.st_uid != os.geteuid() and not os.access(folder, os.W_OK):
            mode &= ~0o222
    upper.chmod(mode)
