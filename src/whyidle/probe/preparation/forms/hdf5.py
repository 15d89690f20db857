"""HDF5 files: one array per part, with the samples as its first axis.

Parts whose shape differs are one after another, with ``NAME.ends`` beside them; so is text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..sample_rows import join_row, make_columns, split_sample

SUFFIX, PACKAGE = ".h5", "h5py"
NATIVE = 'h5py.File("{folder}/00000.h5")["NAME"][i]'
ENDS = ".ends"


def write_samples(path: str, samples: Iterable[Any]) -> None:
    """Write a shard, in memory until it is whole: HDF5 ends the process where the disk is full."""
    import h5py
    import numpy as np

    with h5py.File(path, "w", driver="core", backing_store=False) as file:
        for name, column in make_columns([split_sample(sample) for sample in samples]).items():
            flat = np.frombuffer(column.data, column.dtype)
            if column.shape is None:
                file[name], file[name + ENDS] = flat, np.array(column.ends)
            else:
                file[name] = flat.reshape(len(column.ends) - 1, *column.shape)
        file.flush()
        image = file.id.get_file_image()
    with open(path, "wb") as target:
        target.write(image)


class Reader:
    """Reads a shard; opened in each process for itself."""

    def __init__(self, path: str, count: int) -> None:
        import h5py

        self._file = h5py.File(path, "r")
        self._arrays = {name: self._file[name] for name in self._file}
        self._ends = {name: self._arrays[name][:] for name in self._file if name.endswith(ENDS)}

    def __getitem__(self, index: int) -> Any:
        return join_row(lambda name: self._read_field(name, index))

    def _read_field(self, name: str, index: int) -> Any:
        ends = self._ends.get(name + ENDS)
        read = self._arrays[name][index if ends is None else slice(*ends[index : index + 2])]
        return read.tobytes()
