"""TFRecord, the form of prepared data that TensorFlow writes and reads."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

sys.path.append(str(Path(__file__).parents[1] / "probe"))

from form_contract import SAMPLES, check_form

from whyidle.probe.preparation.forms.tfrecord import read_records, write_samples


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_come_back_byte_for_byte(kind, tmp_path):
    check_form("tfrecord", SAMPLES[kind], tmp_path)


def test_a_pipeline_has_the_parts_with_their_shapes(tmp_path):
    rng = np.random.default_rng(0)
    samples = [(rng.random((2, 3), dtype=np.float32), n, np.arange(n)) for n in range(6)]
    for shard in range(2):
        write_samples(str(tmp_path / f"0000{shard}.tfrecord"), samples[shard * 3 : shard * 3 + 3])
    pipeline = read_records(str(tmp_path))
    assert pipeline.element_spec["0"] == tf.TensorSpec((2, 3), tf.float32)
    for found, made in zip(pipeline, samples, strict=True):
        assert np.array_equal(found["0"], made[0])
        assert int(found["1"]) == made[1]
        assert np.array_equal(found["2"], made[2])
