"""Rewrites a decoder's error messages."""

from __future__ import annotations

import re

_MISSING = re.compile(r"Object missing required field (`[^`]*`)")


def describe_error(error: Exception) -> str:
    """Describe a decoder's error in a sentence without full stop."""
    text = _MISSING.sub(r"The required field \1 is missing", str(error))
    return text.replace("Object", "It").replace("$.", "").replace(" - at `$`", "")
