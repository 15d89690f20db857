"""TFRecord, the form of prepared data that TensorFlow writes and reads."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

sys.path.append(str(Path(__file__).parents[1] / "probe"))

from form_contract import SAMPLES, check_form

from whyidle.probe.preparation.forms.tfrecord import write_samples


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_come_back_byte_for_byte(kind, tmp_path):
    check_form("tfrecord", SAMPLES[kind], tmp_path)


def test_features_hold_parts_with_their_shapes(tmp_path):
    made = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = str(tmp_path / "00000.tfrecord")
    write_samples(path, [(made, 5)])
    texts = tf.io.FixedLenFeature([], tf.string)
    whole = tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)
    spec = {"0": texts, "1": texts, "0.type": texts, "0.shape": whole}
    record = tf.io.parse_single_example(next(iter(tf.data.TFRecordDataset(path))), spec)
    assert record["0.type"] == b"f4"
    read = tf.reshape(tf.io.decode_raw(record["0"], tf.float32), record["0.shape"])
    assert np.array_equal(read, made)
    assert int(tf.io.decode_raw(record["1"], tf.int64)[0]) == 5
