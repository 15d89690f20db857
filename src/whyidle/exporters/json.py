"""The diagnosis as one JSON document, ``whyidle/diagnosis/1``; ``null`` means not measured."""

from __future__ import annotations

import msgspec

from whyidle.model.diagnosis import Diagnosis

SUFFIXES = (".json",)
WANTS = "either"


def render(diagnosis: Diagnosis) -> str:
    """The document, indented, keys in the order of the contract.

    Numbers that are not finite cannot be written in JSON and are a fault of ours; they come out
    as ``null``, which is what they mean. A scalar of an array library is written as its number:
    a slip in one figure must not cost the document.
    """
    encoded = msgspec.json.encode(diagnosis, enc_hook=_encode_unsupported)
    return msgspec.json.format(encoded, indent=1).decode() + "\n"


def _encode_unsupported(value: object) -> object:
    """What msgspec asks of whatever it has no form for: another form of it, or this very exception,
    of which it makes the error that names the type."""
    item = getattr(value, "item", None)
    if item is None:
        raise NotImplementedError(type(value).__name__)
    return item()
