"""Encodes samples as bytes and decodes them: equal samples give equal bytes.

Supported are numbers, text, tensors in host memory, arrays, images with their metadata, and lists,
tuples and dicts of these.
"""

from __future__ import annotations

import ctypes
import marshal
import sys
from collections.abc import Callable
from typing import Any

PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})
VERSION = 2
"""marshal format: from version 3 on, the bytes depend on which objects are identical"""


class UnknownError(Exception):
    """The sample holds a value of an unsupported type; the message names it."""


def encode_sample(value: Any) -> bytes:
    """Encode a sample.

    Raises:
        UnknownError: it holds a value of an unsupported type.
    """
    return marshal.dumps(encode_plain(value), VERSION)


def decode_sample(data: Any) -> Any:
    """Decode a sample; the result shares no memory with ``data``."""
    return decode_plain(marshal.loads(data))


def encode_plain(value: Any) -> Any:
    """A sample as nested lists of plain values, each with the tag of its type."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple):
        return ["l" if kind is list else "u", *map(encode_plain, value)]
    if kind is dict:
        if not all(type(key) in PLAIN for key in value):
            raise UnknownError("a dict by other keys than text and numbers")
        return ["d", *(part for key in value for part in (key, encode_plain(value[key])))]
    result = _encode_tensor(value) or _encode_array(value) or _encode_image(value)
    if result is None:
        raise UnknownError(f"a {kind.__module__}.{kind.__qualname__}")
    return result


def _encode_tensor(value: Any) -> list[Any] | None:
    torch: Any = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor:
        return None
    plain = value.device.type == "cpu" and value.layout == torch.strided
    if not plain or value.requires_grad or value.is_quantized or value.is_conj() or value.is_neg():
        raise UnknownError("a tensor that is not plain host memory")
    if any(not step and size > 1 for step, size in zip(value.stride(), value.shape, strict=True)):
        raise UnknownError("a tensor whose elements share memory")
    flat = value.contiguous()
    # not by ``numpy``: PyTorch cannot resize a tensor that was converted to an array
    data = ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())
    name = str(value.dtype).partition(".")[2]
    return ["t", name, tuple(value.shape), tuple(value.stride()), data]


def _encode_array(value: Any) -> list[Any] | None:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    if value.dtype.hasobject or type(value) not in (numpy.ndarray, value.dtype.type):
        raise UnknownError("an array of objects")
    if value.dtype.names or value.dtype.subdtype:
        raise UnknownError("an array of records")
    kind = "g" if type(value) is not numpy.ndarray else "f" if value.flags.fnc else "c"
    order = "F" if kind == "f" else "C"
    return [kind, value.dtype.str, tuple(value.shape), value.tobytes(order)]


def _encode_image(value: Any) -> list[Any] | None:
    home: Any = sys.modules.get("PIL.Image")
    if home is None or type(value) is not home.Image:
        return None
    if value.mode not in ("1", "L", "RGB", "RGBA", "I", "F", "CMYK", "YCbCr", "HSV", "LAB"):
        raise UnknownError(f"an image of mode {value.mode}")
    return ["p", value.mode, value.size, value.tobytes(), encode_plain(value.info)]


def decode_plain(value: Any) -> Any:
    """The sample of nested lists."""
    if type(value) is not list:
        return value
    kind, *rest = value
    return READ[kind](rest)


def _read_dict(rest: list[Any]) -> Any:
    return {rest[i]: decode_plain(rest[i + 1]) for i in range(0, len(rest), 2)}


def _read_tensor(rest: list[Any]) -> Any:
    import torch

    name, shape, stride, data = rest
    dtype = getattr(torch, name)
    if not data:
        return torch.empty_strided(shape, stride, dtype=dtype)
    flat = torch.empty(len(data), dtype=torch.uint8)  # in PyTorch's own memory
    ctypes.memmove(flat.data_ptr(), data, len(data))
    made = flat.view(dtype).view(shape)
    if made.stride() == stride:
        return made
    return torch.empty_strided(shape, stride, dtype=dtype).copy_(made)


def _read_array(order: str, rest: list[Any]) -> Any:
    numpy: Any = sys.modules["numpy"]  # the dataset has imported it
    kind, shape, data = rest
    made = numpy.frombuffer(bytearray(data), dtype=kind)
    return made.reshape(shape, order="F" if order == "F" else "C")


def _read_image(rest: list[Any]) -> Any:
    mode, size, data, info = rest
    made = sys.modules["PIL.Image"].frombytes(mode, tuple(size), data)
    made.info = decode_plain(info)
    return made


READ: dict[str, Callable[[list[Any]], Any]] = {
    "l": lambda rest: [decode_plain(item) for item in rest],
    "u": lambda rest: tuple(decode_plain(item) for item in rest),
    "d": _read_dict,
    "t": _read_tensor,
    "c": lambda rest: _read_array("C", rest),
    "f": lambda rest: _read_array("F", rest),
    "g": lambda rest: _read_array("C", rest)[()],
    "p": _read_image,
}
