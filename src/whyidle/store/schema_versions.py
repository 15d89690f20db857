"""Brings documents of older versions up to date.

A migration is a function from a document of one version to one of the next, declared in
``MIGRATIONS`` under the schema it reads. There is one version so far, so the table is empty. Keys
that were renamed within a version are read under their former names for one release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

VERSION: Final = 1
"""of the store's own layout (``meta.json``)"""

Migration = Callable[[dict[str, Any]], dict[str, Any]]
MIGRATIONS: Final[dict[str, Migration]] = {}
"""schema -> the step to the next schema"""

RENAMED: Final = (
    (("findings",), "prescriptions", "fixes"),
    (("findings", "fixes"), "treatment", "fix"),
    (("trials",), "treatment", "fix"),
    (("detail",), "healed", "fixed"),
    (("fix",), "treatment", "fix"),  # of a plan
)
"""where a key stood in what whyidle 0.1 wrote, its name there, and today's; to be removed in the
release after the next"""


def upgrade_document(document: Any) -> Any:
    """The document in today's schema. What is no document, or of an unknown schema, comes back as
    it is: the decoder says what is wrong with it."""
    while isinstance(document, dict):
        step = MIGRATIONS.get(str(document.get("schema")))
        if step is None:
            break
        document = step(document)
    rename_old_keys(document)
    return document


def rename_old_keys(document: Any) -> None:
    """Rename, in place, the keys of a document or plan that had another name in whyidle 0.1."""
    for path, old, new in RENAMED:
        parts = [document]
        for key in path:
            below = [part.get(key) for part in parts if isinstance(part, dict)]
            parts = [item for one in below for item in (one if isinstance(one, list) else [one])]
        for part in parts:
            if isinstance(part, dict) and old in part and new not in part:
                part[new] = part.pop(old)
