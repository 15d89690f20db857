"""Puts a `View` between a job and the functions of Python that take names of files.

Each function of ``os``, and ``open``, is replaced by one that asks the view where to go. What is no
name (a descriptor, a name relative to an open folder) goes through as it is, and so does everything
that the system's own libraries open: see ``writers`` for those that are known.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any

from .listing import Listing
from .patched import Patched, named
from .view import View

READ = ("access", "getxattr", "listxattr", "pathconf", "stat", "statvfs")
LOOK = ("lstat", "readlink")
CHANGE = ("chmod", "chown", "lchown", "removexattr", "setxattr", "truncate", "utime")
MAKE = ("mkfifo", "mknod")


class Diversion:
    """All replacements of one process."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.undo: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """From here on the job sees the view."""
        for name in READ:
            self._patch(os, name, self._reader(name, follow=True))
        for name in LOOK:
            self._patch(os, name, self._reader(name, follow=False))
        for name in CHANGE:
            self._patch(os, name, self._changer(name))
        for name in MAKE:
            self._patch(os, name, self._maker(name))
        self._patch(os, "open", self._os_open(os.open))
        for name, make in (
            ("chdir", self._chdir),
            ("getcwd", self._getcwd),
            ("link", self._link),
            ("listdir", self._listdir),
            ("mkdir", self._mkdir),
            ("rmdir", self._rmdir),
            ("scandir", self._scandir),
            ("symlink", self._symlink),
        ):
            self._patch(os, name, make(getattr(os, name)))
        for name in ("rename", "replace"):
            self._patch(os, name, self._mover(getattr(os, name)))
        for name in ("remove", "unlink"):
            self._patch(os, name, self._remover(getattr(os, name)))
        opened = self._open(io.open)
        import _io

        for module in (builtins, io, _io):
            self._patch(module, "open", opened)
        shutil = sys.modules.get("shutil")
        if shutil is not None:
            self._set(shutil, "_use_fd_functions", False)  # which name files within open folders

    def _patch(self, owner: Any, name: str, handle: Callable[..., Any]) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            patched = Patched(original, handle)
            self._set(owner, name, patched)
            for told in (os.supports_follow_symlinks, os.supports_fd, os.supports_effective_ids):
                if original in told:
                    told.add(patched)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self.undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def remove(self) -> None:
        """As it was (for tests)."""
        for owner, name, value in reversed(self.undo):
            setattr(owner, name, value)

    def wrapped(
        self, original: Callable[..., Any], choose: Callable[..., str | None]
    ) -> Callable[..., Any]:
        """``original`` with its first argument replaced by what ``choose`` makes of it."""
        view = self.view

        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, int) or kwargs.get("dir_fd") is not None or not view.enter():
                return original(path, *args, **kwargs)
            try:
                place = view.locate(path)
                where = None if place is None else choose(place, *args, **kwargs)
            finally:
                view.leave()
            if where is None:
                return original(path, *args, **kwargs)
            return named(path, where, original, args, kwargs)

        return call

    def _reader(self, name: str, follow: bool) -> Callable[..., Any]:
        def choose(place: str, *_: Any, **kwargs: Any) -> str:
            return self.view.source(place, follow and kwargs.get("follow_symlinks", True))

        return self.wrapped(getattr(os, name, None) or _none, choose)

    def _changer(self, name: str) -> Callable[..., Any]:
        view = self.view

        def choose(place: str, *_: Any, **kwargs: Any) -> str | None:
            if view.special(place):
                return None
            follow = name != "lchown" and kwargs.get("follow_symlinks", True)
            found = view.source(place, follow)
            return view.target(place, keep=True, follow=follow) if os.path.lexists(found) else found

        return self.wrapped(getattr(os, name, None) or _none, choose)

    def _maker(self, name: str) -> Callable[..., Any]:
        return self.wrapped(getattr(os, name, None) or _none, self._new)

    def _new(self, place: str, *_: Any, **__: Any) -> str:
        if self.view.exists(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place)
        return self.view.target(place, keep=False, follow=False)

    def written(self, place: str, keep: bool, new: bool) -> str | None:
        """Where to open for writing."""
        if self.view.special(place):
            return None
        if new:
            return self._new(place)
        place = self.view.final(place)
        found = self.view.layer(place)
        return found if os.path.isdir(found) else self.view.target(place, keep)

    def _open(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def choose(place: str, mode: str = "r", *_: Any, **kwargs: Any) -> str | None:
            if kwargs.get("opener") is not None:
                return None  # it calls ``os.open``
            if not set(mode) & set("wax+"):
                return self.view.source(place)
            if "r" in mode and not self.view.exists(place):
                return self.view.source(place)
            return self.written(place, keep=not set(mode) & set("wx"), new="x" in mode)

        call = self.wrapped(original, choose)

        def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
            return call(file, *args, **kwargs)

        return opened

    def _os_open(self, original: Callable[..., Any]) -> Callable[..., Any]:
        unnamed = getattr(os, "O_TMPFILE", -1)

        def choose(place: str, flags: int, *_: Any, **__: Any) -> str | None:
            if flags & unnamed == unnamed:
                return self.view.target(os.path.join(place, "x"), keep=False)[:-2]
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                return self.view.source(place)
            if not flags & os.O_CREAT and not self.view.exists(place):
                return self.view.source(place)
            return self.written(place, keep=not flags & os.O_TRUNC, new=bool(flags & os.O_EXCL))

        call = self.wrapped(original, choose)

        def opened(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
            return call(path, flags, *args, **kwargs)

        return opened

    def _mkdir(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return self.wrapped(original, self._new)

    def _remover(self, original: Callable[..., Any]) -> Callable[..., Any]:
        view = self.view

        def remove(place: str) -> None:
            os.lstat(view.layer(place))  # which says what is wrong
            if os.path.lexists(view.upper + place):
                original(view.upper + place)
            elif os.path.isdir(place) and not os.path.islink(place):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place)
            view.removed(place)

        return self._replaced(original, remove)

    def _rmdir(self, original: Callable[..., Any]) -> Callable[..., Any]:
        view = self.view

        def remove(place: str) -> None:
            found = view.source(place, follow=False)
            if os.path.islink(found) or not os.path.isdir(found):
                return original(found)  # which says what is wrong
            if view.names(place):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), place)
            if os.path.isdir(view.upper + place):
                original(view.upper + place)
            view.removed(place)
            return None

        return self._replaced(original, remove)

    def _replaced(
        self, original: Callable[..., Any], instead: Callable[..., Any]
    ) -> Callable[..., Any]:
        """For a path of the view ``instead`` is called with the place."""
        view = self.view

        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, int) or kwargs.get("dir_fd") is not None or not view.enter():
                return original(path, *args, **kwargs)
            try:
                place = view.locate(path)
                if place is None:
                    return original(path, *args, **kwargs)
                return instead(place)
            finally:
                view.leave()

        return call

    def _mover(self, original: Callable[..., Any]) -> Callable[..., Any]:
        view = self.view

        def call(src: Any, dst: Any, **kwargs: Any) -> Any:
            if any(each is not None for each in kwargs.values()) or not view.enter():
                return original(src, dst, **kwargs)
            try:
                old, new = view.locate(src), view.locate(dst)
                if old is None and new is None:
                    return original(src, dst)
                return self._move(original, (src, dst), (old, new))
            finally:
                view.leave()

        return call

    def _move(
        self, original: Callable[..., Any], names: tuple[Any, Any], places: tuple[Any, Any]
    ) -> None:
        """Move what the job knows as ``names``, where either may be none of the view's."""
        view, (src, dst), (old, new) = self.view, names, places
        if new is not None and not os.path.isdir(view.layer(os.path.dirname(new))):
            os.lstat(view.layer(new))  # which says what is wrong
        if old is not None:
            os.lstat(view.layer(old))
            if old == new:
                return
            if new is not None:
                wrong = self._unfit(old, new)
                if wrong:
                    raise OSError(wrong, os.strerror(wrong), src, None, dst)
            view.lift(old)
        source = src if old is None else view.upper + old
        original(source, dst if new is None else view.target(new, keep=False, follow=False))
        if old is not None:
            view.removed(old)

    def _unfit(self, old: str, new: str) -> int | None:
        """Why the system would not move one over the other; it sees one layer only."""
        source, target = self.view.layer(old), self.view.layer(new)
        if new.startswith(old + "/"):
            return errno.EINVAL
        if old.startswith(new + "/"):
            return errno.ENOTEMPTY
        if not os.path.lexists(target):
            return None
        if not _folder(source):
            return errno.EISDIR if _folder(target) else None
        if not _folder(target):
            return errno.ENOTDIR
        return errno.ENOTEMPTY if self.view.names(new) else None

    def _link(self, original: Callable[..., Any]) -> Callable[..., Any]:
        view = self.view

        def call(src: Any, dst: Any, **kwargs: Any) -> Any:
            if not view.enter():
                return original(src, dst, **kwargs)
            try:
                old, new = view.locate(src), view.locate(dst)
                if new is None and old is None:
                    return original(src, dst, **kwargs)
                if old is not None:
                    os.lstat(view.layer(old))  # which says what is wrong
                    view.forget()
                    view.lift(old)  # a second name of the real one would let it be written
                source = src if old is None else view.upper + old
                return original(source, dst if new is None else self._new(new), **kwargs)
            finally:
                view.leave()

        return call

    def _symlink(self, original: Callable[..., Any]) -> Callable[..., Any]:
        view = self.view

        def call(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None or not view.enter():
                return original(src, dst, *args, **kwargs)
            try:
                view.forget()
                new = view.locate(dst)
                return original(src, dst if new is None else self._new(new), *args)
            finally:
                view.leave()

        return call

    def _chdir(self, original: Callable[..., Any]) -> Callable[..., Any]:
        view = self.view

        def choose(place: str) -> str:
            return place if os.path.isdir(place) and not view.is_gone(place) else view.source(place)

        return self.wrapped(original, choose)

    def _getcwd(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call() -> str:
            found: str = original()
            upper = self.view.upper
            return found[len(upper) :] or "/" if found.startswith(upper) else found

        return call

    def _listdir(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def merged(path: Any, names: list[str]) -> Any:
            return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

        return self._lister(original, merged)

    def _scandir(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return self._lister(original, Listing)

    def _lister(
        self, original: Callable[..., Any], merged: Callable[..., Any]
    ) -> Callable[..., Any]:
        view = self.view

        def call(path: Any = ".") -> Any:
            path = "." if path is None else path
            if isinstance(path, int) or not view.enter():
                return original(path)
            try:
                place = view.locate(path)
                if place is None:
                    return original(path)
                place = view.final(place)
                if view.touched(place):
                    return merged(path, view.names(place))
                return named(path, view.layer(place), original, (), {})
            finally:
                view.leave()

        return call


def _folder(path: Any) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _none(*_: Any, **__: Any) -> None:
    raise NotImplementedError
