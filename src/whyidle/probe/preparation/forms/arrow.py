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
    if column.kind != "Array":
        kind = pa.large_string() if column.kind == "str" else pa.large_binary()
        return pa.Array.from_buffers(kind, count, [None, ends, data])
    kind = getattr(pa, f"{TYPES[column.dtype[1]]}{8 * int(column.dtype[2:])}")()
    values = pa.Array.from_buffers(kind, column.ends[-1], [None, data])
    if column.shape == ():
        return values
    offsets = pa.Array.from_buffers(pa.int64(), count + 1, [None, ends])
    return pa.LargeListArray.from_arrays(offsets, values)


class Reader:
    """Reads a shard."""

    def __init__(self, path: str, count: int) -> None:
        import pyarrow as pa

        self._batch = batch = pa.ipc.open_stream(pa.memory_map(path)).read_next_batch()
        self._numbers: dict[str, tuple[memoryview, memoryview | None, int]] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            listed = pa.types.is_large_list(column.type)
            if listed or pa.types.is_primitive(column.type):
                ends = memoryview(column.buffers()[1]).cast("B").cast("q") if listed else None
                flat = column.values if listed else column
                values = memoryview(flat.buffers()[1] or b"").cast("B")
                self._numbers[name] = values, ends, flat.type.bit_width // 8

    def __getitem__(self, index: int) -> Any:
        return join_row(lambda name: self._read_field(name, index))

    def _read_field(self, name: str, index: int) -> Any:
        if name not in self._numbers:
            return self._batch.column(name)[index].as_py()
        values, ends, size = self._numbers[name]
        begin, end = (index, index + 1) if ends is None else ends[index : index + 2]
        return bytes(values[begin * size : end * size])
