"""Brings documents of older versions up to date.

A migration is a function from a document of one version to one of the next, declared in
``MIGRATIONS`` under the schema it reads. There is one version so far, so the table is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

VERSION: Final = 1
"""of the store's own layout (``meta.json``)"""

Migration = Callable[[dict[str, Any]], dict[str, Any]]
MIGRATIONS: Final[dict[str, Migration]] = {}
"""schema -> the step to the next schema"""


def upgrade(document: Any) -> Any:
    """The document in today's schema. What is no document, or of an unknown schema, comes back as
    it is: the decoder says what is wrong with it."""
    while isinstance(document, dict):
        step = MIGRATIONS.get(str(document.get("schema")))
        if step is None:
            break
        document = step(document)
    return document
