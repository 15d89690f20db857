"""Puts a ``Mirror`` between a job and the functions of Python that take file names.

Functions of ``os``, and ``open``, are replaced by ones that use the path in the mirror. Other
arguments (a descriptor, a name relative to an open folder) pass unchanged, and so does everything
that libraries open in native code: see ``native_writers`` for those that are known.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .mirror import Mirror


class Patched:
    """A callable that replaces a function. Not a plain function, which would become a method in a
    class; it is pickled as the function that it replaces."""

    def __init__(self, original: Callable[..., Any], handle: Callable[..., Any]) -> None:
        self.handle = handle
        self.__name__ = original.__name__
        self.__qualname__ = original.__name__
        self.__module__ = "os" if original.__module__ in ("posix", "nt") else original.__module__
        self.__doc__ = original.__doc__
        self.__wrapped__ = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the replacement."""
        return self.handle(*args, **kwargs)

    def __reduce__(self) -> str:
        return self.__name__


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


WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
Where = Callable[..., "str | None"]
"""for a place and the further arguments of a call: the path to use; None for the job's own"""
HOLDERS = (("pathlib", "_NormalAccessor"), ("glob", "_StringGlobber"))
"""classes that store functions of ``os`` when their module is imported, in Python 3.10 and 3.13; a
package's ``.pth`` file may import them before this module"""


class Diversion:
    """All replacements of one process."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.replaced: dict[int, Patched] = {}

    def install_replacements(self) -> None:
        """Install all replacements: the job sees the mirror from now on."""
        for names, make in (
            (
                "access getxattr listxattr pathconf stat statvfs listdir",
                self._wrap_one_path(self.path_to_read),
            ),
            ("lstat readlink", self._wrap_one_path(self.path_to_look)),
            (
                "chmod chown removexattr setxattr truncate utime",
                self._wrap_one_path(self.path_to_change),
            ),
            ("lchown", self._wrap_one_path(self.change_link)),
            ("mkdir mkfifo mknod", self._wrap_one_path(self.path_to_make)),
            ("remove unlink rmdir", self._wrap_one_path(self.path_to_make)),
            ("chdir", self._wrap_one_path(self.change_folder)),
            ("open", self._wrap_one_path(self.open_descriptor)),
            ("rename replace link symlink", self._wrap_two_paths),
            ("scandir", self._wrap_scandir),
            ("getcwd", lambda _: self.mirror.current_folder),
        ):
            for name in names.split():
                if hasattr(os, name):  # not every system has all
                    self._patch_function(os, name, make)
        divert = self._wrap_one_path(self.open_file)(io.open)

        def open_diverted(file: Any, *args: Any, **kwargs: Any) -> Any:
            return divert(file, *args, **kwargs)

        opened = Patched(io.open, open_diverted)
        import _io

        for module in (builtins, io, _io):
            self._put_function(module, "open", opened)
        for where, name in HOLDERS:
            holder = getattr(sys.modules.get(where), name, None)
            for attribute, value in list(vars(holder).items()) if holder else ():
                replacement = self.replaced.get(id(getattr(value, "__func__", value)))
                if replacement is not None:
                    setattr(holder, attribute, replacement)
        shutil: Any = sys.modules.get("shutil")
        if shutil is not None:
            shutil._use_fd_functions = False  # these use names relative to open folders
        divert_shared_memory()

    def _patch_function(self, owner: Any, name: str, make: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        patched = Patched(original, make(original))
        for known in (os.supports_follow_symlinks, os.supports_fd, os.supports_effective_ids):
            if original in known:
                known.add(patched)
        self._put_function(owner, name, patched)

    def _put_function(self, owner: Any, name: str, patched: Patched) -> None:
        self.replaced[id(getattr(owner, name))] = patched
        setattr(owner, name, patched)

    def _wrap_one_path(self, choose: Where) -> Callable[..., Callable[..., Any]]:
        """Wrapper for a function whose first argument is a path."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
                if isinstance(path, int) or kwargs.get("dir_fd") is not None:
                    return original(path, *args, **kwargs)
                where = None
                if not self.mirror.enter_call():
                    return original(path, *args, **kwargs)
                try:
                    place = self.mirror.locate_path("." if path is None else path)
                    if place is not None:
                        where = _call_with_path(path, choose, place, *args, **kwargs)
                finally:
                    self.mirror.leave_call()
                if where is None:
                    return original(path, *args, **kwargs)
                instead = os.fsencode(where) if isinstance(path, bytes) else where
                return _call_with_path(path, original, instead, *args, **kwargs)

            return call

        return make

    def path_to_read(self, place: str, *_: Any, **kwargs: Any) -> str | None:
        """Path for a function that reads a file, following links unless told otherwise."""
        if not kwargs.get("follow_symlinks", True):
            return self.path_to_look(place)
        return self._find_path(place)

    def _find_path(self, place: str) -> str | None:
        target = self.mirror.follow_links(place)
        if target is None:
            return None
        path = self.mirror.find_path(target)
        return target if path is None and target != place else path

    def path_to_look(self, place: str, *_: Any, **__: Any) -> str | None:
        """Path for a function that reads a link itself."""
        return self.mirror.find_path(place)

    def path_to_change(self, place: str, *_: Any, **kwargs: Any) -> str | None:
        """Path for a function that changes an existing file."""
        if not kwargs.get("follow_symlinks", True):
            return self.change_link(place)
        target = self.mirror.follow_links(place)
        return None if target is None else self.mirror.copy_path(target)

    def change_link(self, place: str, *_: Any, **__: Any) -> str | None:
        """Path for a function that changes a link itself."""
        return self.mirror.copy_path(place)

    def path_to_make(self, place: str, *_: Any, **__: Any) -> str:
        """Path for a function that creates or removes a name."""
        return self.mirror.prepare_path(place)

    def change_folder(self, place: str) -> str | None:
        """Path for ``os.chdir``."""
        return self._find_path(place)

    def open_file(self, place: str, mode: str = "r", *_: Any, **kwargs: Any) -> str | None:
        """Path for ``open``."""
        if kwargs.get("opener") is not None:
            return None  # it calls ``os.open``
        if not set(mode) & set("wax+"):
            return self._find_path(place)
        return self.path_to_write(place, keep="w" not in mode, fresh="x" in mode)

    def open_descriptor(self, place: str, flags: int, *_: Any, **__: Any) -> str | None:
        """Path for ``os.open``."""
        unnamed = getattr(os, "O_TMPFILE", -1)
        if flags & unnamed == unnamed:
            folder = self.mirror.follow_links(place)
            return folder and os.path.dirname(self.mirror.prepare_path(os.path.join(folder, "x")))
        if not flags & WRITES:
            return self._find_path(place)
        fresh = flags & os.O_CREAT and flags & os.O_EXCL
        return self.path_to_write(place, keep=not flags & os.O_TRUNC, fresh=bool(fresh))

    def path_to_write(self, place: str, keep: bool, fresh: bool = False) -> str | None:
        """Path at which to open a file for writing; ``fresh``: it must not exist."""
        if fresh:
            return self.mirror.prepare_path(place)
        target = self.mirror.follow_links(place)
        return None if target is None else self.mirror.copy_path(target, keep)

    def _wrap_two_paths(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrapper for a function that creates its second argument from its first."""
        name = original.__name__

        def call(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            folders = [kwargs.get(argument) for argument in ("dir_fd", "src_dir_fd", "dst_dir_fd")]
            if name != "link" and any(argument is not None for argument in folders):
                return original(src, dst, *args, **kwargs)
            new = self.mirror.locate_path(dst)
            old = None if name == "symlink" else self.mirror.locate_path(src)
            source = src
            if old is not None:
                source = self.mirror.prepare_path(old)
                if name == "link" or new is None:
                    # a second name of a mirror's link would make the real file writable
                    source = self.mirror.copy_path(old) or source
            if name == "link" and old is not None:
                kwargs["follow_symlinks"] = False
            target = dst if new is None else self.mirror.prepare_path(new)
            try:
                return original(source, target, *args, **kwargs)
            except OSError as error:
                error.filename, error.filename2 = src, dst
                raise

        return self._run_guarded(original, call)

    def _wrap_scandir(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scan(path: Any = None) -> Any:
            path = "." if path is None else path
            place = None if isinstance(path, int) else self.mirror.locate_path(path)
            target = None if place is None else self.mirror.follow_links(place)
            if target is None:
                return original(path)
            own = self.mirror.upper + target
            if os.path.realpath(own) == target == place:
                return original(path)
            if not os.path.isdir(own):
                return _call_with_path(path, original, own)
            return Listing(path, os.listdir(own))

        return self._run_guarded(original, scan)

    def _run_guarded(
        self, original: Callable[..., Any], work: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return ``work``, within which ``original`` is called directly."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.mirror.enter_call():
                return original(*args, **kwargs)
            try:
                return work(*args, **kwargs)
            finally:
                self.mirror.leave_call()

        return call


def _call_with_path(path: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; an error names the path that the job used."""
    try:
        return function(*args, **kwargs)
    except OSError as error:
        if error.filename is not None:
            error.filename = path
        raise


def divert_shared_memory() -> None:
    """Divert blocks of shared memory, which are files that Python opens by name."""
    try:
        import _posixshmem  # type: ignore[import-not-found]
    except ImportError:
        return  # a system without it

    def open_block(path: str, flags: int, mode: int = 0o777) -> int:
        return os.open("/dev/shm/" + path.lstrip("/"), flags | os.O_CLOEXEC, mode)

    def unlink_block(path: str) -> None:
        os.unlink("/dev/shm/" + path.lstrip("/"))

    if os.path.isdir("/dev/shm"):
        _posixshmem.shm_open, _posixshmem.shm_unlink = open_block, unlink_block
