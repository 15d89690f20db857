"""Tar files as WebDataset reads them: ``KEY.FIELD.npy`` and the like for each part of a sample."""

from __future__ import annotations

import io
import mmap
import os
import struct
import tarfile
from collections.abc import Iterable
from typing import Any

from ..sample_rows import Array, Field, join_row, split_sample

SUFFIX = ".tar"
NATIVE = 'webdataset.WebDataset(sorted(glob.glob("{folder}/*.tar"))).decode()'
NPY = b"\x93NUMPY\x01\x00"


def write_samples(path: str, samples: Iterable[Any]) -> None:
    """Write a shard."""
    shard = os.path.basename(path).partition(".")[0]
    with tarfile.open(path, "w") as file:
        for number, sample in enumerate(samples):
            for name, value in split_sample(sample).items():
                ending, data = _encode_field(value)
                member = tarfile.TarInfo(f"{shard}-{number:06}.{name}.{ending}")
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))


def _encode_field(value: Field) -> tuple[str, bytes]:
    """How WebDataset names a part, and its bytes."""
    if not isinstance(value, Array):
        return ("txt", value.encode()) if isinstance(value, str) else ("bin", value)
    head = f"{{'descr': '{value.dtype}', 'fortran_order': False, 'shape': {value.shape!r}, }}"
    head += " " * (-(len(NPY) + 2 + len(head) + 1) % 64) + "\n"
    return "npy", NPY + struct.pack("<H", len(head)) + head.encode() + value.data


class Reader:
    """Reads a shard."""

    def __init__(self, path: str, count: int) -> None:
        self._parts: list[dict[str, tuple[int, int]]] = [{} for _ in range(count)]
        with tarfile.open(path) as tar:
            file: Any = tar.fileobj
            for member in tar:
                key, _, rest = member.name.partition(".")
                name, _, ending = rest.rpartition(".")
                begin, end = member.offset_data, member.offset_data + member.size
                if ending == "npy":
                    file.seek(begin + len(NPY))
                    (head,) = struct.unpack("<H", file.read(2))
                    begin += len(NPY) + 2 + head
                self._parts[int(key.rpartition("-")[2])][name] = begin, end
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __getitem__(self, index: int) -> Any:
        return join_row(lambda name: self._data[slice(*self._parts[index][name])])
