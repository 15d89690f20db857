"""Reads a dataset that ``whyidle prepare`` has written: samples by index.

Needs nothing but the packages of the samples. Safe in loader workers: files are opened on first use
in each process, and never written.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import warnings
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from ..knobs._sample_codec import decode_sample

MANIFEST = "manifest.json"


class ShardReader:
    """Reads a file of encoded samples, after which stands where each begins."""

    def __init__(self, path: str, count: int) -> None:
        with open(path, "rb") as file:
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._offsets = self._data[len(self._data) - 8 * (count + 1) :].cast("Q")

    def __getitem__(self, index: int) -> Any:
        return decode_sample(self._data[self._offsets[index] : self._offsets[index + 1]])


class PreparedDataset:
    """The samples of a dataset as ``dataset[i]`` gave them.

    Args:
        folder: where ``whyidle prepare`` wrote to; the default is the folder that holds
            this package.
        transform: what is still to be done online, such as random augmentation; it is applied to
            the first element of a tuple, or to the whole sample.
    """

    def __init__(
        self, folder: str | None = None, transform: Callable[[Any], Any] | None = None
    ) -> None:
        self.folder = os.path.abspath(folder or os.path.dirname(os.path.dirname(__file__)))
        self.transform = transform
        path = os.path.join(self.folder, MANIFEST)
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
            written_s = os.fstat(file.fileno()).st_mtime
        if newer := find_newer(manifest.get("sources", ()), written_s, self.folder):
            warnings.warn(f"{newer} is newer than the data prepared of it in {self.folder}: delete "
                          "the folder and run whyidle prepare again", stacklevel=2)  # fmt: skip
        for name in manifest["imports"]:
            importlib.import_module(name)
        self._names = [shard["name"] for shard in manifest["shards"]]
        self._ends = list(accumulate(shard["samples"] for shard in manifest["shards"]))
        self._opened: dict[int, ShardReader] = {}
        self._process = os.getpid()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Any:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        shard = bisect_right(self._ends, position)
        begin = self._ends[shard - 1] if shard else 0
        sample = self._open_shard(shard, self._ends[shard] - begin)[position - begin]
        if self.transform is None:
            return sample
        if type(sample) is tuple:
            return (self.transform(sample[0]), *sample[1:])
        return self.transform(sample)

    def _open_shard(self, shard: int, count: int) -> ShardReader:
        if self._process != os.getpid():  # libraries may not share open files with a forked process
            self._opened, self._process = {}, os.getpid()
        if shard not in self._opened:
            path = os.path.join(self.folder, self._names[shard])
            self._opened[shard] = ShardReader(path, count)
        return self._opened[shard]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}  # a spawned worker opens the files itself


def find_newer(sources: Any, written_s: float, apart: str) -> str | None:
    """The first source file, of at most so many, that was changed after ``written_s``; files below
    ``apart`` are no sources. Sources that are not here say nothing."""
    count = 0
    for source in sources:
        places = os.walk(source) if os.path.isdir(source) else [("", (), (source,))]
        for place, _, names in places:
            if place.startswith(apart):
                continue
            for name in names:
                path, count = os.path.join(place, name), count + 1
                if os.path.exists(path) and os.stat(path).st_mtime > written_s:
                    return path
                # some tenths of a second on a local disk
                if count == 10_000:
                    return None
    return None
