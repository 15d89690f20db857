"""What a decoder says of a document, in sentences."""

from __future__ import annotations

import re

_MISSING = re.compile(r"Object missing required field (`[^`]*`)")


def describe_error(error: Exception) -> str:
    """Without a full stop."""
    text = _MISSING.sub(r"The required field \1 is missing", str(error))
    return text.replace("Object", "It").replace("$.", "").replace(" - at `$`", "")
