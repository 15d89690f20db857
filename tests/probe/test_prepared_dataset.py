"""Prepared samples come back byte for byte, in any order."""

import random

import numpy as np
import pytest

from whyidle.probe.knobs._sample_codec import encode_sample
from whyidle.probe.preparation.prepared_dataset import ShardReader
from whyidle.probe.preparation.sample_maker import write_samples

try:
    from PIL import Image
except ImportError:  # as in the environment of TensorFlow
    Image = None


def mixed_sample(number):
    rng = np.random.default_rng(number)
    pixels = rng.integers(0, 255, (4, 6, 3), dtype=np.uint8)
    made = {
        "image": rng.random((3, 4, 5), dtype=np.float32),
        "label": number,
        "a/b.ends": f"né{number}\0",
        "score": 0.1 * number,
        "raw": bytes([number]) * number,
        "ids": [1, 2, 3][: number % 3 + 1],
        "box": (0.5, 1.5),
        "flag": number % 2 == 0,
        "none": None,
        "large": 1 << 70,
        "surrogate": "\ud800",
        "fortran": np.asfortranarray(rng.random((3, 4))),
        "scalar": np.float16(2.5),
        "zero": np.zeros((0, 3)),
        "complex": np.array([1 + 2j]),
        "words": np.array(["ab", "c"]),
        "dates": np.array([1], "M8[s]"),
        "swapped": np.array([1, 2], ">i4"),
        "rank 0": np.array(3.0),
        "bool": np.array([True, False]),
        "layout": 5,
        "empty": [],
        "nested": {"x": [np.arange(number), {"y": 3}]},
    }
    if Image is not None:
        made |= {"photo": Image.fromarray(pixels), "bits": Image.new("1", (5, 5))}
    return made


SAMPLES = {
    "mixed": [mixed_sample(number) for number in range(7)],
    "tuples": [(np.arange(4), 3), (np.arange(4) + 1, 4)],
    "numbers": [5, -6, 7],
    "text": ["a", ""],
    "bytes": [b"x"],
    "different parts": [{"a": 1}, {"b": 2.0}, {}],
}


def check_samples(samples, folder):
    """Write samples and read them back at random, each twice."""
    path = str(folder / "00000.shard")
    write_samples(path, iter(samples))
    reader = ShardReader(path, len(samples))
    for index in random.Random(1).sample(range(len(samples)), len(samples)):
        assert encode_sample(reader[index]) == encode_sample(samples[index])
        assert encode_sample(reader[index]) == encode_sample(samples[index])


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_come_back_byte_for_byte(kind, tmp_path):
    check_samples(SAMPLES[kind], tmp_path)


def test_tensors_come_back_byte_for_byte(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = (torch.randn(2, 3).t(), torch.randn(3).bfloat16(), torch.tensor([True]))
    check_samples([tensors, tensors], tmp_path)
