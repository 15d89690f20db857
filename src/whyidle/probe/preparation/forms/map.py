"""Memory-mapped files: encoded samples, then where each begins. The fastest at random order."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable
from typing import Any

from ...knobs._sample_codec import decode_sample, encode_sample

SUFFIX, NATIVE = ".shard", ""


def write_samples(path: str, samples: Iterable[Any]) -> None:
    """Write a shard."""
    offsets = array("Q", [0])
    with open(path, "wb") as file:
        for sample in samples:
            file.write(encode_sample(sample))
            offsets.append(file.tell())
        file.write(b"\0" * (-offsets[-1] % 8) + offsets.tobytes())


class Reader:
    """Reads a shard."""

    def __init__(self, path: str, count: int) -> None:
        with open(path, "rb") as file:
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._offsets = self._data[len(self._data) - 8 * (count + 1) :].cast("Q")

    def __getitem__(self, index: int) -> Any:
        return decode_sample(self._data[self._offsets[index] : self._offsets[index + 1]])
