"""TFRecord files of ``tf.train.Example``: a feature per part of a sample, and for arrays two more,
``NAME.shape`` and ``NAME.type``."""

from __future__ import annotations

import glob
import mmap
import os
import struct
from collections.abc import Iterable
from itertools import islice
from typing import Any

from ..sample_rows import LAYOUT, Array, Field, join_row, split_sample

SUFFIX, PACKAGE = ".tfrecord", "tensorflow"
NATIVE = "{package}.forms.tfrecord.read_records()  # a tf.data.Dataset of named parts"
LOOKED_AT = 64
"""records from which ``read_records`` takes the shapes that are always the same"""


def write_samples(path: str, samples: Iterable[Any]) -> None:
    """Write a shard with TensorFlow's own writer."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(path) as writer:
        for sample in samples:
            example = tf.train.Example()
            for name, value in split_sample(sample).items():
                _set_feature(example.features.feature, name, value)
            writer.write(example.SerializeToString(deterministic=True))


def _set_feature(features: Any, name: str, value: Field) -> None:
    if isinstance(value, int):
        features[name].int64_list.value.append(value)
        return
    if isinstance(value, Array):
        features[f"{name}.shape"].int64_list.value.extend(value.shape)
        features[f"{name}.type"].bytes_list.value.append(value.dtype[1:].encode())
        value = value.data
    data = struct.pack("<d", value) if isinstance(value, float) else value
    features[name].bytes_list.value.append(data.encode() if isinstance(data, str) else data)


class Reader:
    """Reads a shard: length (8 bytes), its checksum (4), the record, its checksum (4)."""

    def __init__(self, path: str, count: int) -> None:
        import tensorflow as tf

        self._parse = tf.train.Example.FromString
        self._records: list[tuple[int, int]] = []
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        end = -4
        while len(self._records) < count:
            begin = end + 16
            end = begin + struct.unpack_from("<Q", self._data, begin - 12)[0]
            self._records.append((begin, end))

    def __getitem__(self, index: int) -> Any:
        features = self._parse(self._data[slice(*self._records[index])]).features.feature
        return join_row(lambda name: _first_value(features[name]))


def _first_value(feature: Any) -> Any:
    return (feature.bytes_list.value or feature.int64_list.value)[0]


def read_records(folder: str | None = None) -> Any:
    """A ``tf.data.Dataset`` of the named parts of each sample. Shapes that are the same in the
    first records are expected in all."""
    import numpy as np
    import tensorflow as tf

    folder = folder or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = sorted(glob.glob(os.path.join(glob.escape(folder), f"*{SUFFIX}")))
    first = [
        tf.train.Example.FromString(record.numpy()).features.feature
        for record in islice(tf.data.TFRecordDataset(files[:1]), LOOKED_AT)
    ]
    spec, shapes, types = {}, {}, {}
    for name, feature in first[0].items():
        kind = tf.string if feature.bytes_list.value else tf.int64
        spec[name] = tf.io.FixedLenFeature([], kind)
        if name.endswith(".shape"):
            spec[name] = tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)
            seen = {tuple(each[name].int64_list.value) for each in first}
            part = name.removesuffix(".shape")
            shapes[part] = seen.pop() if len(seen) == 1 else None
            named = first[0][f"{part}.type"].bytes_list.value[0].decode()
            types[part] = tf.as_dtype(np.dtype(named))  # before 2.18 it knows few names

    def parse_record(record: Any) -> dict[str, Any]:
        found = tf.io.parse_single_example(record, spec)
        parts = {name: found[name] for name in spec if not name.endswith((".shape", ".type"))}
        for name, kind in types.items():
            flat = tf.io.decode_raw(parts[name], kind)
            parts[name] = tf.ensure_shape(tf.reshape(flat, found[f"{name}.shape"]), shapes[name])
        return {name: value for name, value in parts.items() if name != LAYOUT}

    return tf.data.TFRecordDataset(files).map(parse_record, num_parallel_calls=tf.data.AUTOTUNE)
