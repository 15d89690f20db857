"""Hooks of the documentation site: ``mkdocs.yml`` names this file.

Pages are written so that they can also be read in the repository. On the site, links to files that
are not part of it become plain text, and links from included files of the repository's root lead to
the pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from whyidle.cli import _app

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)((?:#[^)]*)?)\)")
INCLUDE = re.compile(r'^--8<-- "(\w+\.md)"$', re.MULTILINE)
COMMANDS = "<!-- commands -->"
RENAMED = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "README.md": "index.md",
}
"""files of the repository's root -> their pages"""


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Include files and help, and adapt links."""
    folder = posixpath.dirname(page.file.src_uri)
    root = Path(config["config_file_path"]).parent

    def include(found: re.Match[str]) -> str:
        text = (root / found[1]).read_text(encoding="utf-8")
        return LINK.sub(lambda link: adapt(link, "..", ""), text)

    def adapt(link: re.Match[str], base: str, inside: str) -> str:
        text, target, anchor = link.groups()
        if re.match(r"\w+:", target):
            return link[0]
        meant = posixpath.normpath(posixpath.join("docs", base, target))
        meant = RENAMED.get(meant, meant.removeprefix("docs/"))
        if files.get_file_from_path(meant) is None:
            return text
        return f"[{text}]({posixpath.relpath(meant, inside or '.')}{anchor})"

    markdown = LINK.sub(lambda link: adapt(link, folder, folder), markdown)
    markdown = INCLUDE.sub(include, markdown)
    return markdown.replace(COMMANDS, _commands()) if COMMANDS in markdown else markdown


def _commands() -> str:
    """The help of every verb, as the command line prints it."""
    verbs = _app.parser()._subparsers._group_actions[0].choices
    return "\n".join(
        f"## whyidle {verb}\n\n```\n{parser.format_help().strip()}\n```\n"
        for verb, parser in verbs.items()
    )
