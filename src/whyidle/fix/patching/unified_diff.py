"""Unified diffs for ``git apply`` and ``patch -p1``, with any file names and line ends."""

from __future__ import annotations

from difflib import unified_diff


def render_diff(name: str, before: str, after: str) -> str:
    """Render the diff of one file; ``name``: its path from the root, with slashes."""
    if before == after:
        return ""
    old, new = (_split_lines(text) for text in (before, after))
    lines = unified_diff(
        old, new, _quote_name(f"a/{name}"), _quote_name(f"b/{name}"), lineterm="\n"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _split_lines(text: str) -> list[str]:
    """Lines as git counts them: only a line feed ends one."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _quote_name(name: str) -> str:
    """A name as git writes it: quoted if it contains quotes, backslashes or control characters;
    followed by a tab if it contains a space."""
    if any(character in '"\\' or character < " " or character == "\x7f" for character in name):
        escaped = "".join(_octal_escape(character) for character in name)
        return f'"{escaped}"'
    return f"{name}\t" if " " in name else name


def _octal_escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    plain = " " <= character != "\x7f"
    return character if plain else f"\\{ord(character):03o}"
