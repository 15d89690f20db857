"""Splits samples into named parts that other libraries can read, and joins them again.

A row holds text, bytes and arrays by name, and under ``layout`` the rest: types, shapes, and which
part stands where. ``(image, 3)`` is a row of ``0``, ``1`` (an array without axes) and ``layout``.
"""

from __future__ import annotations

import marshal
import re
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..knobs._sample_codec import VERSION, decode_plain, encode_plain

LAYOUT = "layout"
CODES = {"int": "i", "uint": "u", "float": "f"}
NUMBERS = {int: ("q", "<i8"), float: ("d", "<f8")}


class Array(NamedTuple):
    """Numbers in C order; ``dtype`` as NumPy writes it, such as ``<f4``."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


Field = str | bytes | Array


def split_sample(value: Any) -> dict[str, Field]:
    """The row of a sample.

    Raises:
        UnknownError: it holds a value of an unsupported type.
    """
    row: dict[str, Field] = {LAYOUT: b""}
    row[LAYOUT] = marshal.dumps(_split_part(encode_plain(value), "", row), VERSION)
    return row


def join_row(read: Callable[[str], Any]) -> Any:
    """The sample of a row. ``read`` gives the bytes of a part by its name, or its text."""
    return decode_plain(_join_part(marshal.loads(read(LAYOUT)), read))


def _split_part(part: Any, name: str, row: dict[str, Field]) -> Any:
    if type(part) is not list:
        value = _as_field(part)
        if value is None:
            return part
        kind = value.dtype if isinstance(value, Array) else type(part).__name__
        return ["v", kind, _add_field(row, name, value)]
    tag, *rest = part
    if tag in ("l", "u"):
        if (numbers := _pack_numbers(rest, (len(rest),))) is not None:
            return ["n", tag, numbers.dtype, _add_field(row, name, numbers)]
        return [tag, *(_split_part(rest[i], _join(name, i), row) for i in range(len(rest)))]
    if tag == "d":
        pairs = zip(rest[::2], rest[1::2], strict=True)
        return [tag, *(x for k, v in pairs for x in (k, _split_part(v, _join(name, k), row)))]
    at = 4 if tag == "t" else 3
    return [*part[:at], _add_field(row, name, _as_array(part, part[at])), *part[at + 1 :]]


def _join_part(part: Any, read: Callable[[str], Any]) -> Any:
    if type(part) is not list:
        return part
    tag, *rest = part
    if tag == "v":
        kind, value = rest[0], read(rest[1])
        if kind in ("str", "bytes"):
            return value.decode() if kind == "str" and isinstance(value, bytes) else value
        return memoryview(value).cast("q" if kind == "<i8" else "d")[0]
    if tag == "n":
        return [rest[0], *memoryview(read(rest[2])).cast("q" if rest[1] == "<i8" else "d")]
    if tag in ("l", "u", "d"):
        return [tag, *(_join_part(each, read) for each in rest)]
    at = 4 if tag == "t" else 3
    return [*part[:at], read(part[at]), *part[at + 1 :]]


def _join(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


def _add_field(row: dict[str, Field], name: str, value: Field) -> str:
    """Add a part under a name that is free, and that files and groups may have."""
    name = re.sub(r"[/\0]|\.(ends|shape|type)$", "_", name).strip(".") or "sample"
    while name in row:
        name += "_"
    row[name] = value
    return name


def _as_field(value: Any) -> Field | None:
    """A value that every form can hold: numbers of 64 bits, bytes, and text that is UTF-8."""
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value if value.isascii() or not re.search("[\ud800-\udfff]", value) else None
    return _pack_numbers([value], ())


def _pack_numbers(values: Sequence[Any], shape: tuple[int, ...]) -> Array | None:
    kinds = {type(value) for value in values}
    code, dtype = NUMBERS.get(kinds.pop() if len(kinds) == 1 else None, ("", ""))  # type: ignore[arg-type]
    try:
        return Array(dtype, shape, array(code, values).tobytes()) if code else None
    except OverflowError:
        return None


def _as_array(part: list[Any], data: bytes) -> Field:
    """Encoded data as an array that other libraries know, else as bytes."""
    tag, kind, shape = part[:3]
    if tag == "p":
        bands = len(data) // max(shape[0] * shape[1], 1)
        known = kind in ("L", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB")
        size = (shape[1], shape[0], *((bands,) if bands > 1 else ()))
        return Array("|u1", size, data) if known else data
    if tag == "t":
        found = re.fullmatch(r"(u?int|float)(\d+)", kind)
        bits = int(found[2]) if found else {"bool": 8, "bfloat16": 16}.get(kind, 0)
        kind = f"{'<' if bits > 8 else '|'}{CODES[found[1]] if found else 'u'}{bits // 8}"
    kind = "|u1" if kind == "|b1" else kind
    native = tag != "f" and re.fullmatch(r"\|[iu]1|<[iu][248]|<f[248]", kind)
    return Array(kind, tuple(shape), data) if native else data
