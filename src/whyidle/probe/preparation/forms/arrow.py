"""Arrow streams, which Hugging Face datasets and pyarrow map: one column per part of a sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..sample_rows import Column, join_row, make_columns, split_sample

SUFFIX, PACKAGE = ".arrow", "pyarrow"
NATIVE = 'datasets.load_dataset("arrow", data_files="{folder}/*.arrow")'
TYPES = {"f": "float", "i": "int", "u": "uint"}


def write_samples(path: str, samples: Iterable[Any]) -> None:
    """Write a shard: one record batch, in memory until it is whole."""
    import pyarrow as pa

    columns = make_columns([split_sample(sample) for sample in samples])
    fields, arrays = [], []
    for name, column in columns.items():
        made = _make_array(pa, column)
        shape = None if column.shape is None else {"shape": ",".join(map(str, column.shape))}
        fields.append(pa.field(name, made.type, metadata=shape))
        arrays.append(made)
    batch = pa.record_batch(arrays, schema=pa.schema(fields))
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)


def _make_array(pa: Any, column: Column) -> Any:
    """An array of Arrow on the column's own bytes."""
    count, data = len(column.ends) - 1, pa.py_buffer(column.data)
    ends = pa.py_buffer(column.ends.tobytes())
    if column.kind in ("s", "b"):
        kind = pa.large_string() if column.kind == "s" else pa.large_binary()
        return pa.Array.from_buffers(kind, count, [None, ends, data])
    kind = getattr(pa, f"{TYPES[column.dtype[1]]}{8 * int(column.dtype[2:])}")()
    values = pa.Array.from_buffers(kind, column.ends[-1], [None, data])
    if column.kind != "a":
        return values
    offsets = pa.Array.from_buffers(pa.int64(), count + 1, [None, ends])
    return pa.LargeListArray.from_arrays(offsets, values)


class Reader:
    """Reads a shard."""

    def __init__(self, path: str, count: int) -> None:
        import pyarrow as pa

        self._batch = pa.ipc.open_stream(pa.memory_map(path)).read_next_batch()
        self._lists: dict[str, tuple[memoryview, memoryview, int]] = {}
        for name, column in zip(self._batch.schema.names, self._batch.columns, strict=True):
            if pa.types.is_large_list(column.type):
                offsets = memoryview(column.buffers()[1]).cast("B").cast("q")
                values = memoryview(column.values.buffers()[1] or b"").cast("B")
                self._lists[name] = offsets, values, column.type.value_type.bit_width // 8

    def __getitem__(self, index: int) -> Any:
        return join_row(lambda name: self._read_field(name, index))

    def _read_field(self, name: str, index: int) -> Any:
        if name not in self._lists:
            return self._batch.column(name)[index].as_py()
        offsets, values, size = self._lists[name]
        return bytes(values[offsets[index] * size : offsets[index + 1] * size])
