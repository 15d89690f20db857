"""Fills a mirror of the user's folder with links to files, and small folders of such links.

A job may remove and recreate its output folder, which fails on a link. Folders with few files are
therefore real folders of links. Large folders, mostly data, stay links, and so do hidden folders
and environments, because git does not accept a ``HEAD`` that is a link.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

SMALL = 2_000  # most entries, at any depth, of a folder that becomes a real folder
MOST_LOOKED_AT = 20_000  # entries examined in total; further folders become links
CACHE = "__pycache__"


class MirrorLinks:
    """Fills a mirror of ``root`` in ``scratch``, except for ``made``, paths that are created
    otherwise. ``folders`` are links to folders."""

    def __init__(self, root: Path, scratch: Path, made: Collection[Path]) -> None:
        self._root, self._scratch, self._made = root, scratch, made
        self._left = MOST_LOOKED_AT
        self.folders: list[Path] = []

    def link_folder(self, real: Path) -> None:
        """Link everything in a folder, except for bytecode, which would not match the copies."""
        for entry in _folder_entries(real):
            if Path(entry.path) not in self._made and entry.name != CACHE:
                self._stand_in(entry, small=_is_plain(entry) and self._is_small(entry.path))

    def _stand_in(self, entry: os.DirEntry[str], *, small: bool) -> None:
        path = Path(entry.path)
        copy = self._scratch / path.relative_to(self._root)
        if entry.is_symlink():
            end = Path(os.path.realpath(path))
            inside = end.is_relative_to(self._root)
            copy.symlink_to(self._scratch / end.relative_to(self._root) if inside else path)
        elif small and entry.is_dir():
            copy.mkdir()
            for each in _folder_entries(path):
                self._stand_in(each, small=_is_plain(each))
        else:
            copy.symlink_to(path)
            if entry.is_dir():
                self.folders.append(copy)

    def _is_small(self, folder: str) -> bool:
        waiting, count = [folder], 0
        while waiting:
            try:
                entries = _folder_entries(waiting.pop())
            except OSError:
                return False
            count += len(entries)
            self._left -= len(entries)
            if count > SMALL or self._left < 0:
                return False
            waiting += [each.path for each in entries if _is_plain(each)]
        return True


def _folder_entries(folder: Path | str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)


def _is_plain(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder that may become a real folder of links."""
    return (
        entry.is_dir(follow_symlinks=False)
        and not entry.name.startswith(".")
        and entry.name != CACHE
        and not Path(entry.path, "pyvenv.cfg").exists()
    )
