"""Reading of ``model.process_facts`` from documents. Documents are foreign input: missing values or
values of another type count as not recorded, and nothing raises."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from whyidle.model.process_facts import ProcessFacts

T = TypeVar("T")


def read_facts(document: Mapping[str, Any]) -> ProcessFacts:
    """Return the facts of a process; "no CUDA" differs from no report."""
    if document.get("cuda_built", "") is None:
        document = {**document, "cuda_built": ""}
    return read_document(ProcessFacts, document)


def read_document(kind: Callable[..., T], document: Mapping[str, Any]) -> T:
    """Return an instance of a class of the document's fields whose types fit."""
    known = {name: read_value(hint, document.get(name)) for name, hint in _hints(kind).items()}
    return kind(**{name: value for name, value in known.items() if value is not None})


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)


def read_value(kind: Any, value: Any) -> Any:
    """Return a value of a type; None if it does not fit. Unfit items of a table are left out."""
    origin, parts = get_origin(kind), get_args(kind)
    if value is None or origin is UnionType:
        return None if value is None else read_value(parts[0], value)
    if hasattr(kind, "__struct_fields__") or hasattr(kind, "__dataclass_fields__"):
        return read_document(kind, value) if isinstance(value, Mapping) else None
    if origin is tuple and parts[-1] is ... and isinstance(value, list | tuple):
        items = (read_value(parts[0], item) for item in value)
        return tuple(item for item in items if item is not None)
    if origin is Mapping and isinstance(value, Mapping):
        pairs = ((key, read_value(parts[1], item)) for key, item in value.items())
        return {str(key): item for key, item in pairs if item is not None}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
