"""Reads a diagnosis document."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from whyidle.errors import StoreError
from whyidle.model.diagnosis import Diagnosis


def read_diagnosis(path: Path) -> Diagnosis:
    """Read a diagnosis document of this version.

    Raises:
        StoreError: it cannot be read, or is not a diagnosis.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"Cannot read {path}.", why=f"{error.strerror or error}.", hint="Check the path."
        ) from error
    try:
        return msgspec.json.decode(content, type=Diagnosis)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(
            f"{path} is not a diagnosis that this version can read.",
            why=f"{describe_error(error)}.",
            hint="Explain the trace again.",
        ) from error


_MISSING = re.compile(r"Object missing required field (`[^`]*`)")


def describe_error(error: Exception) -> str:
    """Describe a decoder's error in a sentence without full stop."""
    text = _MISSING.sub(r"The required field \1 is missing", str(error))
    return text.replace("Object", "It").replace("$.", "").replace(" - at `$`", "")
