"""The wire format of protocol buffers: fields of a message, without a schema."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIDTH = {FIXED64: 8, FIXED32: 4}

Field = tuple[int, int, int, int]
"""(number, wire type, value of a varint or start of the content, end of the content)"""


class ProtobufError(ValueError):
    """The bytes are no message, or end within one."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number: (value, position after it).

    Raises:
        ProtobufError: it does not end.
    """
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift >= 70:  # bits of the longest varint
                raise ProtobufError("a number is too long")
    except IndexError:
        raise ProtobufError("the file ends within a number") from None


def read_fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields of the message ``data[at:end]``, in order.

    Raises:
        ProtobufError: the bytes are no message, or end within one.
    """
    while at < end:
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = read_varint(data, at)
            yield number, wire, value, at
            continue
        if wire == BYTES:
            size, at = read_varint(data, at)
        elif wire in _WIDTH:
            size = _WIDTH[wire]
        else:
            raise ProtobufError(f"a field has the unknown type {wire}")
        if not number or at + size > end:
            raise ProtobufError("a field reaches beyond its message")
        yield number, wire, at, at + size
        at += size


def to_signed(value: int) -> int:
    """A varint of an ``int64`` as a signed number."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
