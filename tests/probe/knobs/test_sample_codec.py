"""Samples as bytes."""

import numpy as np
import pytest
import torch

from whyidle.probe.knobs._sample_codec import UnknownError, decode_sample, encode_sample

SAMPLES = {
    "plain": [None, True, 3, -(2**70), 1.5, float("inf"), 2j, "text é", b"\x00"],
    "nested": {"a": (1, [2, ("b",)]), 3: {}},
    "tensors": [torch.arange(6.0).view(2, 3), torch.tensor(3), torch.zeros(0, 4)],
    "types": [torch.ones(2, dtype=d) for d in (torch.bool, torch.bfloat16, torch.complex64)],
    "strided": [torch.arange(6).view(2, 3).t(), torch.arange(8)[::2], torch.ones(1, 0)],
    "arrays": [np.arange(6.0).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.zeros((0, 2))],
    "numpy": [np.float32(1.5), np.int64(3), np.array(7), np.array(["ab", "c"]), np.bool_(1)],
}


def told(value):
    """All that can be told from a sample."""
    if isinstance(value, torch.Tensor):
        return "t", value.dtype, value.shape, value.stride(), value.tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        layout = (value.flags.c_contiguous, value.flags.f_contiguous)
        return type(value), value.dtype, value.shape, layout, value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value), [told(one) for one in value]
    if isinstance(value, dict):
        return [(key, told(one)) for key, one in value.items()]
    return type(value), value


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_written_is_read(name):
    value = SAMPLES[name]
    data = encode_sample(value)
    assert told(decode_sample(data)) == told(value)
    assert encode_sample(decode_sample(data)) == data


def test_bytes_tell_bits_and_not_which_objects_were_the_same():
    text = "".join(["long", "er"])
    assert encode_sample([text, text]) == encode_sample([text, "".join(["long", "er"])])
    assert encode_sample(torch.tensor(0.0)) != encode_sample(torch.tensor(-0.0))
    assert encode_sample(float("nan")) == encode_sample(float("nan"))
    assert encode_sample(1) != encode_sample(True)
    assert encode_sample((1,)) != encode_sample([1])


def test_a_tensor_that_was_written_can_be_resized():
    tensor = torch.arange(4.0)
    data = encode_sample(tensor)
    assert tensor.resize_(8).shape == (8,)
    assert decode_sample(data).resize_(8).shape == (8,)


def test_each_reading_is_a_copy():
    data = encode_sample([torch.zeros(3), np.zeros(3)])
    for _ in range(2):
        tensor, array = decode_sample(data)
        assert tensor.sum() == array.sum() == 0
        tensor += 1
        array += 1


class Mine(dict):
    """A class of the script's own."""


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Mine(), "test_sample_codec.Mine"),
        (object(), "builtins.object"),
        (torch.nn.Parameter(torch.ones(1)), "Parameter"),
        (torch.ones(1, requires_grad=True), "not plain host memory"),
        (torch.eye(2).to_sparse(), "not plain host memory"),
        (torch.ones(1, device="meta"), "not plain host memory"),
        (torch.ones(1).expand(3), "share memory"),
        (np.array([object()]), "array of objects"),
        (np.zeros(2, dtype=[("a", "f4")]), "array of records"),
        ({(1, 2): 3}, "other keys"),
    ],
    ids=[
        "class",
        "object",
        "parameter",
        "graph",
        "sparse",
        "meta",
        "view",
        "objects",
        "record",
        "keys",
    ],
)
def test_what_is_not_known_is_named(value, what):
    with pytest.raises(UnknownError, match=what):
        encode_sample([value])


def test_images():
    home = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    image = home.frombytes("RGB", (3, 2), bytes(range(18)))
    image.info = {"dpi": (72, 72.0), "exif": b"as it is"}
    found = decode_sample(encode_sample(image))
    assert (found.mode, found.size, found.tobytes()) == (image.mode, image.size, image.tobytes())
    assert found.info == image.info
    with pytest.raises(UnknownError, match="mode P"):
        encode_sample(image.convert("P"))
