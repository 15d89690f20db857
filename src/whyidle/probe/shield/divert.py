"""Puts a `View` between a job and the functions of Python that take names of files.

Each function of ``os``, and ``open``, is replaced by one that asks the view where to go (``paths``
for those of one name, ``moves`` for those of two). What is no name (a descriptor, a name relative
to an open folder) goes through as it is, and so does everything that the system's own libraries
open: see ``writers`` for those that are known.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable
from typing import Any

from . import moves, paths
from .patched import Patched
from .shared import Marks
from .view import View

NAMED = {
    **dict.fromkeys(("access", "getxattr", "listxattr", "pathconf", "stat", "statvfs"), paths.read),
    **dict.fromkeys(("lstat", "readlink"), paths.look),
    **dict.fromkeys(
        ("chmod", "chown", "removexattr", "setxattr", "truncate", "utime"), paths.change
    ),
    **dict.fromkeys(("mkdir", "mkfifo", "mknod"), paths.make),
    **dict.fromkeys(("remove", "unlink"), paths.remove),
    **dict.fromkeys(("rename", "replace"), moves.move),
    "chdir": paths.change_folder,
    "getcwd": paths.folder,
    "lchown": paths.change_link,
    "link": moves.link,
    "listdir": paths.names,
    "open": paths.open_descriptor,
    "rmdir": paths.remove_folder,
    "scandir": paths.entries,
    "symlink": moves.symlink,
}
"""functions of ``os``, and what makes their replacements of a view and the original"""
HOLDERS = (("pathlib", "_NormalAccessor"), ("glob", "_StringGlobber"))
"""classes that keep functions of ``os`` from when their module was imported, in Python 3.10 and
3.13: that may be before us, where a package's ``.pth`` file does it"""


class Diversion:
    """All replacements of one process."""

    def __init__(self, view: View, marks: Marks) -> None:
        self.view, self.marks = view, marks
        self.undo: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """From here on the job sees the view."""
        for name, replacement in NAMED.items():
            original = getattr(os, name, None)  # not every system has all
            if original is not None:
                self._patch(os, name, replacement(self.view, self.marks.made(original, name)))
        opened = paths.open_file(self.view, self.marks.made(io.open, "open"))
        import _io

        for module in (builtins, io, _io):
            self._patch(module, "open", opened)
        for where, name in HOLDERS:
            self._within(getattr(sys.modules.get(where), name, None))
        shutil = sys.modules.get("shutil")
        if shutil is not None:
            self._set(shutil, "_use_fd_functions", False)  # which name files within open folders

    def _patch(self, owner: Any, name: str, handle: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        patched = Patched(original, handle)
        self._set(owner, name, patched)
        for told in (os.supports_follow_symlinks, os.supports_fd, os.supports_effective_ids):
            if original in told:
                told.add(patched)

    def _within(self, holder: type | None) -> None:
        """A class has the replacements, too."""
        replaced = {id(value): getattr(owner, name) for owner, name, value in self.undo}
        for name, value in list(vars(holder).items()) if holder else ():
            replacement = replaced.get(id(getattr(value, "__func__", value)))
            if replacement is not None:
                self._set(holder, name, replacement)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self.undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def remove(self) -> None:
        """As it was (for tests)."""
        for owner, name, value in reversed(self.undo):
            setattr(owner, name, value)
