"""The JSON Schemas of the published documents, made from their types.

``python -m whyidle.model.schema NAME`` prints one of ``DOCUMENTS``. The published text is
``docs/schema/NAME.schema.json``, and a test holds them together.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Final

import msgspec

from whyidle.model import diagnosis
from whyidle.model.documents import fleet, watch_document
from whyidle.model.live import alert

PUBLISHED = "docs/schema/diagnosis.schema.json"
DOCUMENTS: Final = {
    "diagnosis": (
        diagnosis.Diagnosis,
        diagnosis.SCHEMA,
        "Why a GPU was idle, or busy for nothing, and what to do about it. "
        "Shares are of the step, 0 to 1; null means not measured.",
    ),
    "watch": (
        watch_document.WatchedMachine,
        watch_document.SCHEMA,
        "What the GPUs of a machine do, whose jobs hold them, and why they wait. "
        "Shares are of time, 0 to 1; null means not measured.",
    ),
    "alert": (
        alert.AlertLine,
        alert.SCHEMA,
        "An alert that fires, still fires or resolves, with its cause where one is known.",
    ),
    "fleet": (
        fleet.FleetReport,
        fleet.SCHEMA,
        "What became of the GPU-hours that a cluster allocated: useful, starved, idle-held, "
        "idle-reserved, failed or unknown. Shares are 0 to 1; null means not measured.",
    ),
}
"""name -> type, schema and description"""


def make_schema(name: str = "diagnosis") -> dict[str, Any]:
    """Make the JSON Schema 2020-12. Every key is required; ``null`` means not measured."""
    kind, schema, description = DOCUMENTS[name]
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for part in parts.values():
        if "properties" in part:
            part["required"] = list(part["properties"])
            for member in part["properties"].values():
                member.pop("propertyNames", None)  # told by msgspec 0.23 and later only
        if "description" in part:  # before Python 3.13 docstrings are indented
            part["description"] = inspect.cleandoc(part["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{schema.replace('/', ':')}",
        "title": schema,
        "description": description,
        **root,
        "$defs": parts,
    }


def schema_text(name: str = "diagnosis") -> str:
    """The text of the published schema."""
    return msgspec.json.format(msgspec.json.encode(make_schema(name)), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text(*sys.argv[1:]))
