"""Builds markup that is safe by its type: plain text is escaped, ``Markup`` is not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

WIDTH = 1040
"""of pictures that are as wide as the page"""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""characters that HTML does not allow"""
_EMPTY = frozenset({"br", "hr", "img", "input", "meta", "link"})


class Markup(str):
    """Text that is already markup, for templates too."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def tag(name: str, /, *children: object, **attributes: str | float | bool | None) -> Markup:
    """Build an element.

    Args:
        name: the tag.
        children: plain text, which is escaped; ``Markup``; None, which is omitted; or iterables of
            these.
        attributes: ``_`` becomes ``-``, a trailing ``_`` is removed; True writes the name only,
            None and False are omitted.
    """
    opening = f"<{name}{''.join(_format_attribute(k, v) for k, v in attributes.items())}>"
    if name in _EMPTY:
        return Markup(opening)
    return Markup(f"{opening}{join_children(children)}</{name}>")


def join_children(child: object) -> Markup:
    """Convert children to markup."""
    if child is None:
        return Markup()
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return Markup(escape(_CONTROL.sub("\ufffd", child)))
    if isinstance(child, Iterable):
        return Markup("".join(join_children(part) for part in child))
    return Markup(escape(str(child)))


def _format_attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {key}"
    return f' {key}="{join_children(str(value))}"'


def script_text(text: str) -> Markup:
    """Escape JSON for a ``<script>`` element."""
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)
