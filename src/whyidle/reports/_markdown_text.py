"""Text of recordings in Markdown."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")


def escape_text(value: str) -> str:
    """Text of a recording on one line, without markup, HTML and mentions."""
    escaped = _SPECIAL.sub(r"\\\1", _one_line(value))
    return escaped.replace("@", "@\u200b")


def code_span(value: str) -> str:
    """A code span that its content cannot close, also in a table cell."""
    text = _one_line(value).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _one_line(value: str) -> str:
    return _CONTROL.sub("\ufffd", " ".join(value.split()))
