"""What others may build on, a line each; ``docs/reference/surface.txt`` is the last release's.

    python docs/surface.py            print today's
    python docs/surface.py --record   replace the file, as a release does

``tests/test_public_names.py`` fails where a line of the file is gone and the change log's
*Unreleased* section does not name it under *Removed*.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import whyidle
from whyidle import catalog, errors
from whyidle.cli import _app
from whyidle.model import cause, fix, signals
from whyidle.model.schema import DOCUMENTS, make_schema

RECORDED = Path(__file__).parent / "reference" / "surface.txt"
EXITS = (errors.WhyidleError, errors.UsageError, errors.GateError)
"""the rest are among these"""


def describe_surface() -> list[str]:
    """Today's lines, sorted."""
    return sorted({*_commands(), *_python(), *_documents(), *_plugins()})


def _commands() -> Iterator[str]:
    for verb, parser in _parsers(_app.parser()):
        yield f"verb {verb}"
        for action in parser._actions:
            yield from (f"option {verb} {option}" for option in action.option_strings)
    yield from (f"exit status {error.__name__} {error.exit_code}" for error in EXITS)


def _parsers(
    parser: argparse.ArgumentParser, above: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield f"{above} {name}".strip(), child
                yield from _parsers(child, f"{above} {name}".strip())


def _python() -> Iterator[str]:
    for name in whyidle.__all__:
        yield f"python whyidle.{name}"
        found = getattr(whyidle, name)
        members = vars(found) if isinstance(found, type) else {}
        yield from (f"python whyidle.{name}.{member}" for member in members if member[0] != "_")


def _documents() -> Iterator[str]:
    for name, (_, schema, _) in DOCUMENTS.items():
        yield f"schema {schema}"
        document = make_schema(name)
        yield from _keys(schema, document, document["$defs"])


def _keys(above: str, part: dict[str, Any], parts: dict[str, Any]) -> Iterator[str]:
    """Keys of a schema by their path, through references, lists and alternatives."""
    if "$ref" in part:
        yield from _keys(above, parts[part["$ref"].rpartition("/")[2]], parts)
    for other in part.get("anyOf", []):
        yield from _keys(above, other, parts)
    if isinstance(part.get("items"), dict):
        yield from _keys(above, part["items"], parts)
    for key, value in part.get("properties", {}).items():
        yield f"key {above} {key}"
        yield from _keys(f"{above} {key}", value, parts)


def _plugins() -> Iterator[str]:
    yield from (f"plug-ins whyidle.{kind}" for kind in catalog._KINDS)
    for kind in (cause.Proof, fix.Proposal):
        yield from (f"field {kind.__name__}.{one.name}" for one in dataclasses.fields(kind))
    yield from (f"signal {name}" for name in signals.SIGNALS)


if __name__ == "__main__":
    text = "\n".join(describe_surface()) + "\n"
    if "--record" in sys.argv[1:]:
        RECORDED.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
