"""Data files that are read again come from memory: whole files, by name, as they are on the disk.

While a batch is made, ``open`` for reading is given a copy, if the file still is what it was when
it was read first (device, inode, size and both times are asked for each time); the file object has
the same name, and a descriptor of its own. Copies lie in memory that the training process shares
with the workers that it forks. What has found no more room is read as ever: nothing is thrown out
to let something else in, so that what is there stays.

Left alone: what is opened for writing, or elsewhere than where batches are made; large files, of
which a dataset may want a part only; what libraries open without Python; code that is imported
while a batch is made, which is near where the data is far. Now and then a file that is there is
read all the same: where that takes hardly longer it is read as ever from then on, and where that is
so of all of them, or it has other bytes, copies are given no more.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import mmap
import os
import stat
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from ..core import containment as guard
from . import DeclinedError, KnobSession, _free_memory, _memory_file
from ._shared_samples import PATIENCE_S, Room

KNOB = "dataset.staging"
SHARE = 0.25
"""of the memory that is free at first, all copies may take at most"""
LARGEST = 32 << 20
"""bytes of a file"""
LEAST = 2.0
"""reading files must take so many times as long as reading their copies"""
FIRST, EVERY = 8, 32
"""of the files that are there so many at first, and then one of so many, are read all the same"""
SLOTS = 1 << 20
SLOT = struct.Struct("<16sq")
TEXT = ("encoding", "errors", "newline")
DEFAULTS = {"buffering": -1, **dict.fromkeys(TEXT), "closefd": True, "opener": None}
NEAR = memoryview(b"")
"""of a file that is read as ever, as it is as near as its copy"""
MADE, OPENED, LARGE, FULL, KEPT = range(5)
"""what was met in any process: a batch made, a file opened, one too large, no room, a copy made"""
HITS, LOOKS, READ_S, COPY_S = range(4)
"""copies asked for; of the files that were read all the same: how many, and how long that took"""
MODES = frozenset(["r", "rb", "br", "rt", "tr"])


class FileShelf:
    """The copies of all files: where each lies, by what it is.

    Raises:
        OSError: there is no such memory.
    """

    def __init__(self, size: int) -> None:
        self.room = Room(size)
        self.slots = mmap.mmap(-1, SLOTS * SLOT.size)
        self.off: Any = memoryview(mmap.mmap(-1, 1))
        """whether copies are given no more, in no process"""
        self.tally: Any = memoryview(mmap.mmap(-1, 4 * 8)).cast("d")
        """``HITS`` and so on, of all processes: with many workers each would look anew, and take
        an epoch for it. Two that count at once may lose one"""

    def get_file(self, key: bytes) -> memoryview | None:
        """The file's bytes, if they are there; none at all where it is to be read as ever."""
        found, place = SLOT.unpack_from(self.slots, self._slot_of(key))
        if not place or found != key:
            return None
        return NEAR if place < 0 else self.room.view(place - 1)

    def leave_file(self, key: bytes) -> None:
        """It is read as ever from now on."""
        SLOT.pack_into(self.slots, self._slot_of(key), key, -1)

    def put_file(self, key: bytes, data: bytes) -> bool:
        """Keep them, if there is room, and say whether there was; two files of one slot share it,
        and one is read as ever."""
        at = self._slot_of(key)
        if self._is_taken(at):
            return True
        begin = self.room.put(data)
        if begin < 0 or not self.room.lock.acquire(timeout=PATIENCE_S):
            return False
        try:
            if not self._is_taken(at):  # it may have been, in the meantime
                SLOT.pack_into(self.slots, at, key, begin + 1)
        finally:
            self.room.lock.release()
        return True

    def _is_taken(self, at: int) -> bool:
        return bool(SLOT.unpack_from(self.slots, at)[1])

    def _slot_of(self, key: bytes) -> int:
        return int.from_bytes(key[:4], "little") % SLOTS * SLOT.size


class FileStaging:
    """What stands for ``open`` in one process."""

    def __init__(self, hand: KnobSession) -> None:
        self.hand = hand
        self.shelf: FileShelf | None = None
        self.making = threading.local()
        self.met: Any = memoryview(mmap.mmap(-1, 5))
        """``MADE`` and so on, by the workers that are forked, too"""

    def makes_batch(self) -> bool:
        """Whether this thread makes a batch."""
        return getattr(self.making, "now", False)

    def explain_unused(self) -> str:
        """Why no copy was given, should none be; nothing where no batch was seen to be made."""
        if not self.met[MADE]:
            return ""
        if not self.met[OPENED]:
            return (
                "no file was read through Python's open while batches were made; what libraries "
                "open without it, or map, is left as it is"
            )
        if self.met[KEPT]:
            return "no file that it keeps was opened a second time"
        if self.met[FULL]:
            return f"its copies may take {SHARE:.0%} of the free memory, where no file found room"
        if self.met[LARGE]:
            return f"its files are larger than {LARGEST >> 20} MiB, and left as they are"
        return "what was opened while batches were made is no file with bytes in it"

    def prepare_shelf(self) -> None:
        """Before workers are forked, which are to share it; one that is no copy has its own."""
        if self.shelf is None:
            from torch.utils.data import get_worker_info

            info = get_worker_info()
            share = SHARE / (info.num_workers if info else 1)
            self.shelf = FileShelf(int(share * min(_free_memory.free_bytes(), 1 << 44)))

    def stop_staging(self, why: str) -> None:
        """Give no more copies, in no process."""
        if self.shelf is not None:
            self.shelf.off[0] = 1
        self.hand.decline_knobs([KNOB], why)

    def bytes_of(self, path: Any) -> memoryview | None:
        """All of a file; None where it has to be opened."""
        try:
            return self._bytes_of(path)
        except OSError:
            return None  # and it says what is wrong as it always did
        except Exception as error:  # contained: the job goes on without it
            if guard.signal_of_handler(error) is not None:
                raise
            if self.shelf is not None:
                self.shelf.off[0] = 1
            self.hand.report_fault([KNOB], error)
            return None

    def _bytes_of(self, path: Any) -> memoryview | None:
        shelf = self.shelf
        if shelf is None or shelf.off[0]:
            return None
        name = os.path.abspath(os.fsdecode(path))
        status = os.stat(name)
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= LARGEST:
            self.met[LARGE] |= status.st_size > LARGEST
            return None
        key = _file_key(name, status)
        data = shelf.get_file(key)
        if data is None:
            found = _read_file(name, key, status.st_size)
            if found is None:
                return None
            self.met[KEPT if shelf.put_file(key, found) else FULL] = 1
            return memoryview(found)
        if not data:
            return None
        shelf.tally[HITS] += 1
        hits = int(shelf.tally[HITS])
        if (hits <= FIRST or not hits % EVERY) and not self._is_still_good(shelf, name, key, data):
            return None
        self.hand.record_applied(KNOB)
        return data

    def _is_still_good(self, shelf: FileShelf, name: str, key: bytes, data: memoryview) -> bool:
        """Read it all the same: whether it is what was kept, and is worth it."""
        begin = time.perf_counter()
        found = _read_file(name, None, len(data))
        middle = time.perf_counter()
        same = found == bytes(data)
        read_s, copy_s = middle - begin, time.perf_counter() - middle
        if not same:
            self.stop_staging("a file has changed, and its times have not")
        elif read_s < LEAST * copy_s:
            shelf.leave_file(key)
        tally = shelf.tally
        tally[COPY_S] += copy_s
        tally[READ_S] += read_s
        tally[LOOKS] += 1
        self._judge_worth(tally)
        return not shelf.off[0]

    def _judge_worth(self, tally: Any) -> None:
        """After some looks: a file that is near is looked at once, so that one that is opened for
        each sample is not taken for all of them."""
        looks, read_s, copy_s = tally[LOOKS], tally[READ_S], tally[COPY_S]
        if looks < FIRST:
            return
        if 0 < read_s < LEAST * copy_s:
            self.stop_staging("its files are read as fast as copies in memory would be")
        tally[LOOKS] = tally[READ_S] = tally[COPY_S] = 0.0


def stage_files(hand: KnobSession) -> None:
    """Keep the files that are opened while batches are made."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch

    if not hasattr(os, "memfd_create"):
        raise DeclinedError("this system has no files in memory")
    staging = FileStaging(hand)
    hand.wait_for([KNOB], staging.explain_unused)

    def make_iterator(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> Any:
            hand.run_contained([KNOB], staging.prepare_shelf)
            return original(self, *args, **kwargs)

        return init

    def make_fetch(original: Callable[..., Any]) -> Callable[..., Any]:
        def fetched(self: Any, *args: Any, **kwargs: Any) -> Any:
            if staging.shelf is None:
                hand.run_contained([KNOB], staging.prepare_shelf)
            before = staging.makes_batch()
            staging.making.now = True
            staging.met[MADE] = 1
            try:
                return original(self, *args, **kwargs)
            finally:
                staging.making.now = before

        return fetched

    hand.replace_function(dataloader._BaseDataLoaderIter, "__init__", make_iterator)
    for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        hand.replace_function(kind, "fetch", make_fetch)
    known: dict[int, StagedOpen] = {}

    def make_open(original: Callable[..., Any]) -> Callable[..., Any]:
        return known.setdefault(id(original), StagedOpen(staging, original))

    for module in (builtins, io):  # one object, so that it is pickled by its name
        hand.replace_function(module, "open", make_open)


class StagedOpen:
    """What stands for ``open``. No plain function, which would become a method where a class keeps
    it."""

    def __init__(self, staging: FileStaging, original: Callable[..., Any]) -> None:
        self.staging = staging
        self.original = original

    def __call__(self, file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        """As ``open`` is called."""
        text = _usual_arguments(file, mode, args, kwargs) if self.staging.makes_batch() else None
        self.staging.met[OPENED] |= text is not None
        data = self.staging.bytes_of(file) if text is not None else None
        if text is None or data is None:
            return self.original(file, mode, *args, **kwargs)
        return _memory_file.open_memory_file(file, mode, data, text)

    def __reduce__(self) -> str:
        return "open"


def _usual_arguments(file: Any, mode: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
    """How a file that is opened by its name is to be read as text, if at all; None where it is to
    be written, or anything unusual is asked for."""
    if not isinstance(file, (str, bytes, os.PathLike)) or mode not in MODES or len(args) > 4:
        return None
    asked = {**DEFAULTS, **dict(zip(DEFAULTS, args, strict=False)), **kwargs}
    text = {name: asked.pop(name) for name in TEXT}
    if "b" in mode:
        asked |= text
    unusual = any(name not in DEFAULTS or one != DEFAULTS[name] for name, one in asked.items())
    return None if unusual else text


def _file_key(name: str, status: os.stat_result) -> bytes:
    """What tells whether a file is the same one still."""
    seen = (name, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    text = repr((*seen, status.st_ctime_ns)).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).digest()


def _read_file(name: str, key: bytes | None, size: int) -> bytes | None:
    """All of a file; None where it was another one than ``key`` says by then."""
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, size + 1):
            parts.append(part)
        same = key is None or _file_key(name, os.fstat(descriptor)) == key
    finally:
        os.close(descriptor)
    data = b"".join(parts)
    return data if same and len(data) == size else None
