"""The diagnosis as one JSON document, ``whyidle/diagnosis/1``; ``null`` means not measured."""

from __future__ import annotations

import msgspec

from whyidle.model.diagnosis import Diagnosis


def render(diagnosis: Diagnosis) -> str:
    """Render the document, indented. Numbers that are not finite become ``null``, and a scalar of
    an array library becomes a number: a bug in one value must not cost the document."""
    encoded = msgspec.json.encode(diagnosis, enc_hook=_encode_unsupported)
    return msgspec.json.format(encoded, indent=1).decode() + "\n"


def _encode_unsupported(value: object) -> object:
    item = getattr(value, "item", None)
    if item is None:
        raise NotImplementedError(type(value).__name__)
    return item()
