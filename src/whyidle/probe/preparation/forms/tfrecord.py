"""TFRecord files of ``tf.train.Example``: a feature per part of a sample, and for arrays two more,
``NAME.shape`` and ``NAME.type``."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from typing import Any

from ..sample_rows import Array, Field, field_bytes, join_row, split_sample

SUFFIX, PACKAGE = ".tfrecord", "tensorflow"
NATIVE = 'tf.data.TFRecordDataset(glob.glob("{folder}/*.tfrecord")).map(PARSE)'


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
    if isinstance(value, Array):
        features[f"{name}.shape"].int64_list.value.extend(value.shape)
        features[f"{name}.type"].bytes_list.value.append(value.dtype[1:].encode())
    features[name].bytes_list.value.append(field_bytes(value))


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
        return join_row(lambda name: features[name].bytes_list.value[0])
