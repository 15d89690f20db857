"""Upgrades documents of older versions.

A migration is a function from a document of one version to one of the next, declared in
``MIGRATIONS`` under the schema it reads. Keys that were renamed within a version are read under
their former names for one release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

VERSION: Final = 1
"""version of the store's layout (``meta.json``)"""

Migration = Callable[[dict[str, Any]], dict[str, Any]]
MIGRATIONS: Final[dict[str, Migration]] = {}
"""schema -> migration to the next schema"""

RENAMED: Final = (
    (("findings",), "prescriptions", "fixes"),
    (("findings", "fixes"), "treatment", "fix"),
    (("trials",), "treatment", "fix"),
    (("detail",), "healed", "fixed"),
    (("fix",), "treatment", "fix"),  # of a plan
)
"""path, name and new name of keys of whyidle 0.1; to be removed in the release after the next"""


def upgrade_document(document: Any) -> Any:
    """Upgrade a document to the current schema; one of an unknown schema is returned unchanged."""
    while isinstance(document, dict):
        step = MIGRATIONS.get(str(document.get("schema")))
        if step is None:
            break
        document = step(document)
    rename_old_keys(document)
    return document


def rename_old_keys(document: Any) -> None:
    """Rename the keys of a document or plan of whyidle 0.1 in place."""
    for path, old, new in RENAMED:
        parts = [document]
        for key in path:
            below = [part.get(key) for part in parts if isinstance(part, dict)]
            parts = [
                item for part in below for item in (part if isinstance(part, list) else [part])
            ]
        for part in parts:
            if isinstance(part, dict) and old in part and new not in part:
                part[new] = part.pop(old)
