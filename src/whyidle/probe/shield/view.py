"""The file system as a job in a trial sees it: the real one, with what the job wrote laid over it.

What is written goes to ``upper``, a folder of ours that repeats the paths of the real one; what is
removed leaves a mark in ``gone``. Nothing else is remembered, so that processes of one job see each
other's files. Only names are handled here: contents are read and written by whoever asked.
"""

from __future__ import annotations

import _thread
import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

MARK = "\x01"
"""after the name of what was removed"""
LEFT = ("/dev", "/proc", "/sys")
SHARED = "/dev/shm/"
MOST_LINKS = 40
_CHUNK = 1 << 22

_open, _close, _read, _write = os.open, os.close, os.read, os.write
_stat, _lstat, _readlink, _listdir = os.stat, os.lstat, os.readlink, os.listdir
_mkdir, _unlink, _getcwd = os.mkdir, os.unlink, os.getcwd


class View:
    """The two layers. ``folder`` is ours, for one command; ``left`` are places written for good;
    ``held`` are names of shared memory that is not the job's own."""

    def __init__(self, folder: str, left: Sequence[str], held: Sequence[str] = ()) -> None:
        self.upper = os.path.join(folder, "upper")
        self.gone = os.path.join(folder, "gone")
        self.own = {each.rstrip("/") for each in (folder, *left)}
        self.own_below = tuple(each + "/" for each in self.own)
        self.left = {*LEFT, *self.own}
        self.below = tuple(each + "/" for each in self.left)
        self.held = frozenset(held)
        self.busy: set[int] = set()
        self.folders: dict[str, str] = {}
        self.hidden: dict[str, bool] = {}

    def locate(self, path: Any) -> str | None:
        """A path as the job means it, absolute, links above it resolved; None for one that is left
        alone (a descriptor, a device, a place that is written for good)."""
        place = self.place(path)
        return None if place is None or self._is_left(place) else place

    def place(self, path: Any) -> str | None:
        """The same, left alone or not; None for a descriptor."""
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        whole = os.path.normpath(text if text[:1] == "/" else os.path.join(self.cwd(), text))
        above, name = os.path.split(whole)
        return os.path.join(self._folder(above), name)

    def cwd(self) -> str:
        """Where the job is: it may have gone into a folder that it made."""
        found = _getcwd()
        return found[len(self.upper) :] or "/" if found.startswith(self.upper) else found

    def _is_left(self, place: str) -> bool:
        if self.held and place.startswith(SHARED) and self._is_held(place):
            return False
        return place.startswith(self.below) or place in self.left

    def _is_held(self, place: str) -> bool:
        name = place[len(SHARED) :].partition("/")[0]
        return name in self.held and not (place in self.own or place.startswith(self.own_below))

    def _folder(self, path: str, links: int = 0) -> str:
        """A folder's place, over links of both layers."""
        found = self.folders.get(path)
        if found is not None or path in ("/", "//"):
            return found or path
        above, name = os.path.split(path)
        found = os.path.join(self._folder(above, links), name)
        if links < MOST_LINKS:
            with suppress(OSError):  # no link
                told = _readlink(found if self._is_left(found) else self.layer(found))
                onward = os.path.normpath(os.path.join(os.path.dirname(found), told))
                found = self._folder(onward, links + 1)
        self.folders[path] = found
        return found

    def layer(self, place: str) -> str:
        """Which of the two has it; a name that does not exist where there is nothing (any more)."""
        return self._look(place)[0]

    def _look(self, place: str) -> tuple[str, bool]:
        """The same, and whether that is a link: this is asked for every file that a job opens."""
        copy = self.upper + place
        try:
            return copy, stat.S_ISLNK(_lstat(copy).st_mode)
        except NotADirectoryError:
            return copy, False  # what was a folder is a file of the job's now
        except OSError:
            if self.is_gone(place):
                return copy, False
        try:
            return place, stat.S_ISLNK(_lstat(place).st_mode)
        except OSError:
            return place, False

    def final(self, place: str) -> str:
        """What a place leads to, where it is a link, over links of both layers."""
        return self._follow(place)[0]

    def _follow(self, place: str) -> tuple[str, str]:
        for _ in range(MOST_LINKS):
            found, link = self._look(place)
            if not link:
                return place, found
            onward = self.locate(os.path.join(os.path.dirname(place), _readlink(found)))
            if onward is None:
                return place, found
            place = onward
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)

    def source(self, place: str, follow: bool = True) -> str:
        """Where to read what the job knows as ``place``."""
        return self._follow(place)[1] if follow else self.layer(place)

    def exists(self, place: str) -> bool:
        """Whether the job sees anything of this name."""
        return os.path.lexists(self.source(place, follow=False))

    def is_gone(self, place: str) -> bool:
        """Whether the job has removed the real one, or a folder above. A mark stays for good: what
        is made again is in the upper layer, and never shows what is below."""
        try:
            _lstat(self.gone + place + MARK)
        except OSError:
            return self._hidden(os.path.dirname(place))
        return True

    def _hidden(self, folder: str) -> bool:
        found = self.hidden.get(folder)
        if found is None:
            found = self.hidden[folder] = folder != "/" and self.is_gone(folder)
        return found

    def target(self, place: str, keep: bool, follow: bool = True) -> str:
        """Where to write it: the folder above is there, if the job sees one; with ``keep`` also
        what it holds so far."""
        place = self.final(place) if follow else place
        copy, above = self.upper + place, os.path.dirname(place)
        found = self.layer(above)
        if os.path.isdir(found):
            _folders(self.upper + above)
        elif os.path.lexists(found):
            return os.path.join(found, os.path.basename(place))  # where the system says it
        if keep and not os.path.lexists(copy) and not self.is_gone(place):
            self._copy(place, copy)
        return copy

    def special(self, place: str) -> bool:
        """Whether it is a pipe, a socket or a device: those are no files, and left alone."""
        try:
            kind = _stat(place).st_mode
        except OSError:
            return False
        return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))

    def forget(self) -> None:
        """Links or folders have changed."""
        self.folders.clear()
        self.hidden.clear()

    def removed(self, place: str) -> None:
        """The job no longer sees it; what was written is away already."""
        self.forget()
        if os.path.lexists(place):
            _folders(os.path.dirname(self.gone + place))
            _close(_open(self.gone + place + MARK, os.O_CREAT | os.O_WRONLY, 0o600))

    def names(self, place: str) -> list[str]:
        """What a folder holds, as the job sees it."""
        copy = self.upper + place
        found: dict[str, None] = {}
        below = not self.is_gone(place) and os.path.isdir(place)
        if below:
            hidden = set(_listdir(self.gone + place)) if os.path.isdir(self.gone + place) else ()
            found = dict.fromkeys(name for name in _listdir(place) if name + MARK not in hidden)
        if os.path.isdir(copy):
            found |= dict.fromkeys(_listdir(copy))
        elif not below:
            return _listdir(self.source(place))  # what is wrong with it is said there
        return list(found)

    def touched(self, place: str) -> bool:
        """Whether the job changed what a folder holds."""
        return os.path.isdir(self.upper + place) or os.path.isdir(self.gone + place)

    def lift(self, place: str) -> None:
        """A real folder or file becomes one of the upper layer, with all that is in it."""
        copy = self.target(place, keep=True, follow=False)
        if os.path.isdir(copy) and not os.path.islink(copy):
            for name in self.names(place):
                self.lift(os.path.join(place, name))

    def _copy(self, place: str, copy: str) -> None:
        try:
            told = _lstat(place)
        except OSError:
            return
        if stat.S_ISDIR(told.st_mode):
            _folders(copy)
        elif stat.S_ISLNK(told.st_mode):
            os.symlink(_readlink(place), copy)
        elif stat.S_ISREG(told.st_mode):
            _contents(place, copy, stat.S_IMODE(told.st_mode))

    def enter(self) -> bool:
        """Begin to handle a call of the job's; False where this thread is handling one: then what
        is asked is ours."""
        thread = _thread.get_ident()
        if thread in self.busy:
            return False
        self.busy.add(thread)
        return True

    def leave(self) -> None:
        """The call is handled."""
        self.busy.discard(_thread.get_ident())


def _folders(path: str) -> None:
    if not os.path.isdir(path):
        _folders(os.path.dirname(path))
        with suppress(FileExistsError):
            _mkdir(path)


def _contents(place: str, copy: str, mode: int) -> None:
    draft = f"{copy}{MARK}{os.getpid()}.{_thread.get_ident()}"
    source = _open(place, os.O_RDONLY)
    try:
        target = _open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode | 0o600)
        try:
            while piece := _read(source, _CHUNK):
                while piece:
                    piece = piece[_write(target, piece) :]
        finally:
            _close(target)
    finally:
        _close(source)
    _rename(draft, copy)


_rename = os.rename
