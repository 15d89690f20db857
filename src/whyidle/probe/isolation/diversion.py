"""Puts a `Mirror` between a job and the functions of Python that take names of files.

Each function of ``os``, and ``open``, is replaced by one that asks the mirror where to go. What is
no name (a descriptor, a name relative to an open folder) goes through as it is, and so does
everything that libraries open in code of their own: see ``native_writers`` for those that are
known.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable
from typing import Any

from .listing import Listing
from .mirror import Mirror
from .patched import Patched

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
Where = Callable[..., "str | None"]
"""for a place and the further arguments of a call: the path to call with; None for the job's own"""
HOLDERS = (("pathlib", "_NormalAccessor"), ("glob", "_StringGlobber"))
"""classes that keep functions of ``os`` from when their module was imported, in Python 3.10 and
3.13: that may be before us, where a package's ``.pth`` file does it"""


class Diversion:
    """All replacements of one process."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.replaced: dict[int, Patched] = {}

    def install(self) -> None:
        """From here on the job sees the mirror."""
        for names, make in (
            ("access getxattr listxattr pathconf stat statvfs listdir", self._one(self.read)),
            ("lstat readlink", self._one(self.look)),
            ("chmod chown removexattr setxattr truncate utime", self._one(self.change)),
            ("lchown", self._one(self.change_link)),
            ("mkdir mkfifo mknod", self._one(self.make)),
            ("remove unlink rmdir", self._one(self.make)),
            ("chdir", self._one(self.change_folder)),
            ("open", self._one(self.open_descriptor)),
            ("rename replace link symlink", self._two),
            ("scandir", self._scan),
            ("getcwd", lambda _: self.mirror.current_folder),
        ):
            for name in names.split():
                if hasattr(os, name):  # not every system has all
                    self._patch(os, name, make)
        divert = self._one(self.open_file)(io.open)

        def open_diverted(file: Any, *args: Any, **kwargs: Any) -> Any:
            return divert(file, *args, **kwargs)

        opened = Patched(io.open, open_diverted)
        import _io

        for module in (builtins, io, _io):
            self._put(module, "open", opened)
        for where, name in HOLDERS:
            holder = getattr(sys.modules.get(where), name, None)
            for each, value in list(vars(holder).items()) if holder else ():
                replacement = self.replaced.get(id(getattr(value, "__func__", value)))
                if replacement is not None:
                    setattr(holder, each, replacement)
        shutil: Any = sys.modules.get("shutil")
        if shutil is not None:
            shutil._use_fd_functions = False  # which name files within open folders
        with_shared_memory()

    def _patch(self, owner: Any, name: str, make: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        patched = Patched(original, make(original))
        for known in (os.supports_follow_symlinks, os.supports_fd, os.supports_effective_ids):
            if original in known:
                known.add(patched)
        self._put(owner, name, patched)

    def _put(self, owner: Any, name: str, patched: Patched) -> None:
        self.replaced[id(getattr(owner, name))] = patched
        setattr(owner, name, patched)

    def _one(self, choose: Where) -> Callable[..., Callable[..., Any]]:
        """For a function whose first argument is a path."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
                if isinstance(path, int) or kwargs.get("dir_fd") is not None:
                    return original(path, *args, **kwargs)
                where = None
                if not self.mirror.enter():
                    return original(path, *args, **kwargs)
                try:
                    place = self.mirror.locate("." if path is None else path)
                    if place is not None:
                        where = _named(path, choose, place, *args, **kwargs)
                finally:
                    self.mirror.leave()
                if where is None:
                    return original(path, *args, **kwargs)
                instead = os.fsencode(where) if isinstance(path, bytes) else where
                return _named(path, original, instead, *args, **kwargs)

            return call

        return make

    def read(self, place: str, *_: Any, **kwargs: Any) -> str | None:
        """What looks at a file, over links unless it says otherwise."""
        if not kwargs.get("follow_symlinks", True):
            return self.look(place)
        return self._find(place)

    def _find(self, place: str) -> str | None:
        target = self.mirror.follow(place)
        if target is None:
            return None
        found = self.mirror.find(target)
        return target if found is None and target != place else found

    def look(self, place: str, *_: Any, **__: Any) -> str | None:
        """What looks at a link itself."""
        return self.mirror.find(place)

    def change(self, place: str, *_: Any, **kwargs: Any) -> str | None:
        """What changes a file that is there."""
        if not kwargs.get("follow_symlinks", True):
            return self.change_link(place)
        target = self.mirror.follow(place)
        return None if target is None else self.mirror.copy(target)

    def change_link(self, place: str, *_: Any, **__: Any) -> str | None:
        """What changes a link itself."""
        return self.mirror.copy(place)

    def make(self, place: str, *_: Any, **__: Any) -> str:
        """What makes or removes a name."""
        return self.mirror.prepare(place)

    def change_folder(self, place: str) -> str | None:
        """A folder that is only the job's is ours; into any other it goes itself."""
        return self._find(place)

    def open_file(self, place: str, mode: str = "r", *_: Any, **kwargs: Any) -> str | None:
        """``open``."""
        if kwargs.get("opener") is not None:
            return None  # it calls ``os.open``
        if not set(mode) & set("wax+"):
            return self._find(place)
        return self.write(place, keep="w" not in mode, fresh="x" in mode)

    def open_descriptor(self, place: str, flags: int, *_: Any, **__: Any) -> str | None:
        """``os.open``."""
        unnamed = getattr(os, "O_TMPFILE", -1)
        if flags & unnamed == unnamed:
            folder = self.mirror.follow(place)
            return folder and os.path.dirname(self.mirror.prepare(os.path.join(folder, "x")))
        if not flags & WRITES:
            return self._find(place)
        fresh = flags & os.O_CREAT and flags & os.O_EXCL
        return self.write(place, keep=not flags & os.O_TRUNC, fresh=bool(fresh))

    def write(self, place: str, keep: bool, fresh: bool = False) -> str | None:
        """Where to open a file for writing; ``fresh`` is whether it must not be there."""
        if fresh:
            return self.mirror.prepare(place)
        target = self.mirror.follow(place)
        return None if target is None else self.mirror.copy(target, keep)

    def _two(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """For a function that makes its second argument of its first."""
        name = original.__name__

        def call(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            folders = [kwargs.get(each) for each in ("dir_fd", "src_dir_fd", "dst_dir_fd")]
            if name != "link" and any(each is not None for each in folders):
                return original(src, dst, *args, **kwargs)
            new = self.mirror.locate(dst)
            old = None if name == "symlink" else self.mirror.locate(src)
            source = src
            if old is not None:
                source = self.mirror.prepare(old)
                if name == "link" or new is None:
                    # a second name of a link of ours would let the real file be written
                    source = self.mirror.copy(old) or source
            if name == "link" and old is not None:
                kwargs["follow_symlinks"] = False
            target = dst if new is None else self.mirror.prepare(new)
            try:
                return original(source, target, *args, **kwargs)
            except OSError as error:
                error.filename, error.filename2 = src, dst
                raise

        return self._guarded(original, call)

    def _scan(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scan(path: Any = None) -> Any:
            path = "." if path is None else path
            place = None if isinstance(path, int) else self.mirror.locate(path)
            target = None if place is None else self.mirror.follow(place)
            if target is None:
                return original(path)
            own = self.mirror.upper + target
            if os.path.realpath(own) == target == place:
                return original(path)
            if not os.path.isdir(own):
                return _named(path, original, own)
            return Listing(path, os.listdir(own))

        return self._guarded(original, scan)

    def _guarded(
        self, original: Callable[..., Any], work: Callable[..., Any]
    ) -> Callable[..., Any]:
        """``work``; what it calls itself goes to ``original``."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.mirror.enter():
                return original(*args, **kwargs)
            try:
                return work(*args, **kwargs)
            finally:
                self.mirror.leave()

        return call


def _named(path: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call it; an error tells the name that the job gave."""
    try:
        return function(*args, **kwargs)
    except OSError as error:
        if error.filename is not None:
            error.filename = path
        raise


def with_shared_memory() -> None:
    """Blocks of shared memory are files, too, which Python opens by their names."""
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
