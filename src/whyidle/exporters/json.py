"""The diagnosis as one JSON document, ``whyidle/diagnosis/1``; ``null`` means not measured."""

from __future__ import annotations

import msgspec

from whyidle.model.diagnosis import Diagnosis

SUFFIXES = (".json",)
WANTS = "either"


def render(diagnosis: Diagnosis) -> str:
    """The document, indented, keys in the order of the contract.

    Numbers that are not finite cannot be written in JSON and are a fault of ours; they come out
    as ``null``, which is what they mean.
    """
    return msgspec.json.format(msgspec.json.encode(diagnosis), indent=1).decode() + "\n"
