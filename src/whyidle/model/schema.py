"""The JSON Schema of the diagnosis document, made from its types.

``python -m whyidle.model.schema`` prints it; ``docs/schema/diagnosis.schema.json`` is that text,
and a test holds the two together.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import msgspec

from whyidle.model.diagnosis import SCHEMA, Diagnosis

PUBLISHED = "docs/schema/diagnosis.schema.json"


def make_schema() -> dict[str, Any]:
    """Make the JSON Schema 2020-12. Every key is required; ``null`` means not measured."""
    (root,), parts = msgspec.json.schema_components([Diagnosis], ref_template="#/$defs/{name}")
    for part in parts.values():
        if "properties" in part:
            part["required"] = list(part["properties"])
        if "description" in part:  # before Python 3.13 docstrings are indented
            part["description"] = inspect.cleandoc(part["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{SCHEMA.replace('/', ':')}",
        "title": SCHEMA,
        "description": "Why a GPU was idle, or busy for nothing, and what to do about it. "
        "Shares are of the step, 0 to 1; null means not measured.",
        **root,
        "$defs": parts,
    }


def schema_text() -> str:
    """The text of the published schema."""
    return msgspec.json.format(msgspec.json.encode(make_schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
