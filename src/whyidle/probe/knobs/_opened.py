"""Files that a script has opened itself, and saves a checkpoint to: as careful scripts do, which
make sure of the bytes before the file takes the place of the last one.

One that is open for writing, empty and new is as good as its name. Another process puts the
checkpoint together elsewhere, makes sure of it and puts it there. Whoever goes on with the open
file, writes more or asks how long it is, waits until it is whole, and goes on at its end.
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Callable
from typing import Any

from . import Hand


class Opened(io.BufferedWriter):
    """What ``open`` gives who writes bytes to a named file. Nothing about it is different."""

    path = ""

    def fresh(self) -> bool:
        """Whether it is empty, and the only file of its name."""
        if self.closed or self.tell():
            return False
        try:
            own, named = os.fstat(self.fileno()), os.stat(self.path)
        except OSError:
            return False
        same = (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)
        return same and own.st_size == 0 and own.st_nlink == 1


class Late(Opened):
    """The same, while another process writes what is to be in it."""

    wait: Callable[[str], Any]

    def write(self, data: Any) -> int:
        """More."""
        return io.BufferedWriter.write(settled(self), data)

    def seek(self, *args: Any) -> int:
        """Elsewhere."""
        return io.BufferedWriter.seek(settled(self), *args)

    def tell(self) -> int:
        """How long it is."""
        return io.BufferedWriter.tell(settled(self))

    def truncate(self, *args: Any) -> int:
        """To a part of it."""
        return io.BufferedWriter.truncate(settled(self), *args)

    def detach(self) -> io.RawIOBase:
        """For whoever writes without a buffer."""
        return io.BufferedWriter.detach(settled(self))


def settled(file: Opened) -> Opened:
    """Wait for what another process writes, and go on at its end.

    Raises:
        OSError: it was not written.
    """
    if not isinstance(file, Late):  # who asks had looked the method up before
        return file
    wait, path = file.wait, file.path
    file.__class__ = Opened  # type: ignore[assignment]
    wait(path)
    there = os.open(path, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        if not os.fstat(there).st_size:
            raise OSError(f"the checkpoint {path} could not be written")
        os.dup2(there, file.fileno(), inheritable=False)
    finally:
        os.close(there)
    file.seek(0, os.SEEK_END)
    return file


class Files:
    """The files that are written by another process, as long as they are open."""

    def __init__(self, hand: Hand, wait: Callable[[str], Any]) -> None:
        self.hand = hand
        self.wait = wait
        self.late: weakref.WeakValueDictionary[int, Late] = weakref.WeakValueDictionary()

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``open``, which remembers by what name."""

        def opens(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
            found = original(file, mode, *args, **kwargs)
            if type(found) is not io.BufferedWriter or self.hand.child:
                return found
            if not isinstance(file, (str, os.PathLike)) or "a" in mode:
                return found
            path, size = os.path.realpath(os.fsdecode(file)), _buffered(found, *args, **kwargs)
            known = Opened(found.detach(), size)
            known.path = path
            return known

        return opens

    def begin(self, file: Opened) -> None:
        """Another process writes it from now on."""
        number = file.fileno()
        file.__class__ = Late
        assert isinstance(file, Late)
        file.wait, self.late[number] = self.wait, file

    def settle(self, number: int) -> None:
        """The file of this descriptor is asked for."""
        file = self.late.pop(number, None)
        if file is not None and not file.closed:
            settled(file)


def put(write: Callable[[Any, Any], Any], value: Any, draft: str, path: str) -> None:
    """In the other process. What could not be written leaves no empty file, which would take the
    place of the last checkpoint."""
    try:
        with open(draft, "wb") as file:
            write(value, file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise


def _buffered(found: Any, buffering: int = -1, *_: Any, **__: Any) -> int:
    size = getattr(found.raw, "_blksize", io.DEFAULT_BUFFER_SIZE)
    return buffering if buffering > 1 else max(size, 1)
