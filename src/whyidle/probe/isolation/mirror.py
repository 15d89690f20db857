"""A private copy of the file system, created folder by folder where a job writes.

The folder ``upper`` holds the whole tree as the job sees it: a link of the mirror stands for every
file and folder that the job has not changed. A folder in which something is created, changed or
removed becomes a real one, filled with such links; a file that is written becomes a copy. Removing,
renaming and listing then need no bookkeeping, and all processes of a job see the same. Files that
other programs later create in such a folder are not visible. The mirror's links begin with
``OURS``, which distinguishes them from the user's.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

OURS = "/./"
LEFT = ("/dev/", "/proc/", "/sys/")
SHARED = "/dev/shm/"
MOST_LINKS = 40
AT_FDCWD = -100

_open, _close, _stat, _lstat, _readlink = os.open, os.close, os.stat, os.lstat, os.readlink
_symlink, _mkdir, _unlink, _rename, _chmod = os.symlink, os.mkdir, os.unlink, os.rename, os.chmod
_read, _write, _scandir, _getcwd, _utime = os.read, os.write, os.scandir, os.getcwd, os.utime
_CHUNK = 1 << 22


class Mirror:
    """The mirror of one command, in ``folder``; ``left`` are places that are written for good."""

    def __init__(self, folder: str, left: Sequence[str]) -> None:
        self.upper = os.path.join(os.path.realpath(folder), "upper")
        self.lock = os.path.join(folder, "lock")
        self.left = frozenset(each.rstrip("/") for each in (folder, *left))
        self.below = tuple(each + "/" for each in self.left)
        self.busy: set[int] = set()
        self.drafts = itertools.count()
        self.resolved: dict[str, str] = {}
        """cache of ``_resolve_folder``, which runs for every opened file"""

    def enter_call(self) -> bool:
        """Begin to handle a call of the job; False if this thread already handles one."""
        thread = _thread.get_ident()
        if thread in self.busy:
            return False
        self.busy.add(thread)
        return True

    def leave_call(self) -> None:
        """End the handling of a call."""
        self.busy.discard(_thread.get_ident())

    def current_folder(self) -> str:
        """Return the job's working directory, which may be a folder that it created."""
        folder = _getcwd()
        return folder[len(self.upper) :] or "/" if folder.startswith(self.upper) else folder

    def locate_path(self, path: Any) -> str | None:
        """Return a path as the job sees it, absolute, with the links above it resolved; None if it
        is not diverted (a descriptor, a device, a place that is written for good)."""
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        if text[:1] != "/":
            text = os.path.join(self.current_folder(), text)
        whole = os.path.normpath(text)
        if whole.startswith("//"):
            whole = whole[1:]
        above, name = os.path.split(whole)
        place = os.path.join(self._resolve_folder(above), name)
        return None if self._is_left(place) else place

    def _is_left(self, place: str) -> bool:
        if place.startswith(self.below) or place in self.left:
            return True
        return place.startswith(LEFT) and not f"{place}/".startswith(SHARED)

    def _resolve_folder(self, folder: str, links: int = 0) -> str:
        """A folder with the user's links resolved."""
        if folder == "/":
            return folder
        known = self.resolved.get(folder)
        if known is not None:
            return known
        above, name = os.path.split(folder)
        place = os.path.join(self._resolve_folder(above, links), name)
        target = self._link_at(place)
        if target is None or links >= MOST_LINKS:
            self.resolved[folder] = place
            return place
        return self._resolve_folder(
            os.path.normpath(os.path.join(os.path.dirname(place), target)), links + 1
        )

    def _link_at(self, place: str) -> str | None:
        """The target of the user's link at a place; None if there is none."""
        try:
            target = _readlink(place if self._is_left(place) else self.upper + place)
        except OSError:
            return None
        return None if target.startswith(OURS) else target

    def follow_links(self, place: str) -> str | None:
        """Follow the user's links from a place; None if the target is not diverted."""
        for _ in range(MOST_LINKS):
            target = self._link_at(place)
            if target is None:
                return place
            onward = self.locate_path(os.path.join(os.path.dirname(place), target))
            if onward is None:
                return None
            place = onward
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)

    def find_path(self, place: str) -> str | None:
        """Return the path from which to read ``place``; None if that is the job's own path."""
        above = os.path.dirname(place)
        try:
            if os.path.samestat(_stat(self.upper + above), _stat(above)):
                return None
        except OSError:
            pass
        target = self._stand_in(place)
        return self.upper + place if target is None else target

    def _stand_in(self, place: str) -> str | None:
        """The real path of a place that is a link of the mirror; None otherwise."""
        try:
            target = _readlink(self.upper + place)
        except OSError:
            return None
        return target[len(OURS) - 1 :] if target.startswith(OURS) else None

    def prepare_path(self, place: str) -> str:
        """Return the path at which to create, remove or rename; a folder becomes a real one."""
        self.resolved.clear()
        self._fill_above(place)
        self._fill_folder(place)
        return self.upper + place

    def copy_path(self, place: str, keep: bool = True) -> str | None:
        """Return the path at which to change a file, copied before; without ``keep`` the copy is
        empty. None for a pipe, a socket or a device."""
        self._fill_above(place)
        real, copy = self._stand_in(place), self.upper + place
        if real is None:
            return copy
        kind = _stat(real).st_mode
        if stat.S_ISDIR(kind):
            self._fill_folder(place)
        elif stat.S_ISREG(kind):
            with self._hold_lock():
                if self._stand_in(place) == real:
                    self._exchange_link(copy, lambda draft: _copy_file(real, draft, keep))
        else:
            return None
        return copy

    def _fill_above(self, place: str) -> None:
        """Make the folder above a real one.

        Raises:
            PermissionError: it lies outside the mirror, by a link that another process has created
                meanwhile.
        """
        above = os.path.dirname(place)
        self._fill_folder(above)
        real = os.path.realpath(self.upper + above)
        if not f"{real}/".startswith(f"{self.upper}/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)

    def _fill_folder(self, folder: str) -> None:
        """Make a folder a real one that holds a link for every entry; other files stay."""
        if folder == "/":
            return
        self._fill_folder(os.path.dirname(folder))
        real = self._stand_in(folder)
        if real is None or not stat.S_ISDIR(_stat(real).st_mode):
            return
        with self._hold_lock():
            if self._stand_in(folder) == real:
                self._exchange_link(self.upper + folder, lambda draft: _fill_folder(real, draft))

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        handle = _open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a process forked meanwhile holds it too
            _close(handle)

    def _exchange_link(self, link: str, make: Callable[[str], None]) -> None:
        """Replace a link with what ``make`` creates, atomically."""
        draft = f"{self.lock}.{os.getpid()}.{_thread.get_ident()}.{next(self.drafts)}"
        make(draft)
        if not os.path.isdir(draft):
            _rename(draft, link)
            return
        import ctypes

        call = getattr(ctypes.CDLL(None), "renameat2", None)
        names = AT_FDCWD, os.fsencode(draft), AT_FDCWD, os.fsencode(link)
        if call is not None and call(*names, 2) == 0:  # RENAME_EXCHANGE
            _unlink(draft)
        else:
            _unlink(link)
            _rename(draft, link)


def _fill_folder(real: str, draft: str) -> None:
    """Create a folder with a link for every entry of a real one, and copies of the user's links."""
    _mkdir(draft)
    with _scandir(real) as entries:
        for entry in entries:
            target = _readlink(entry.path) if entry.is_symlink() else OURS[:-1] + entry.path
            _symlink(target, os.path.join(draft, entry.name))
    status = _stat(real)
    _chmod(draft, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
    _utime(draft, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_file(real: str, draft: str, keep: bool) -> None:
    status = _stat(real)
    mode = stat.S_IMODE(status.st_mode)
    target = _open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode | stat.S_IRUSR | stat.S_IWUSR)
    try:
        source = _open(real, os.O_RDONLY) if keep else -1
        try:
            while keep and (piece := _read(source, _CHUNK)):
                while piece:
                    piece = piece[_write(target, piece) :]
        finally:
            if keep:
                _close(source)
    finally:
        _close(target)
    _utime(draft, ns=(status.st_atime_ns, status.st_mtime_ns))
