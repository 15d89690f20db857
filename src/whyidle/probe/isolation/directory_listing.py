"""What ``os.scandir`` returns for a folder of the mirror."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any


class Entry:
    """An entry of a folder of the mirror; methods as in ``os.DirEntry``."""

    def __init__(self, folder: Any, name: str) -> None:
        self.name: Any = os.fsencode(name) if isinstance(folder, bytes) else name
        self.path: Any = os.path.join(folder, self.name)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """See ``os.DirEntry``."""
        return os.stat(self.path) if follow_symlinks else os.lstat(self.path)

    def inode(self) -> int:
        """See ``os.DirEntry``."""
        return os.lstat(self.path).st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """See ``os.DirEntry``."""
        return os.path.isdir(self.path) and (follow_symlinks or not self.is_symlink())

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """See ``os.DirEntry``."""
        return os.path.isfile(self.path) and (follow_symlinks or not self.is_symlink())

    def is_symlink(self) -> bool:
        """See ``os.DirEntry``."""
        return os.path.islink(self.path)

    def is_junction(self) -> bool:
        """See ``os.DirEntry``."""
        return False


class Listing:
    """An iterator as ``os.scandir`` returns it."""

    def __init__(self, folder: Any, names: list[str]) -> None:
        self.entries: Iterator[Entry] = (Entry(os.fspath(folder), name) for name in names)

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self.entries)

    def __enter__(self) -> Listing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: no file is open."""
