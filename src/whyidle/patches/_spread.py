"""What a call takes by ``**``: known where that is a dictionary that the file plainly writes."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
from libcst import metadata

from whyidle.patches._source import Source


@dataclass(frozen=True, slots=True)
class Spread:
    """Keyword -> the expression of its value; None where whether it is passed, or with what,
    depends on the run."""

    keys: dict[str, cst.BaseExpression | None]


def spread(source: Source, call: cst.Call) -> Spread | None:
    """What a call takes by ``**``; None where that is not plain to see, or it takes ``*``."""
    keys: dict[str, cst.BaseExpression | None] = {}
    for arg in call.args:
        if arg.star == "*":
            return None
        if arg.star == "**":
            found = _dictionary(source, arg.value, call)
            if found is None:
                return None
            keys |= found
    return Spread(keys)


def _dictionary(
    source: Source, value: cst.BaseExpression, call: cst.Call
) -> dict[str, cst.BaseExpression | None] | None:
    if isinstance(value, cst.Dict):
        return _written(source, value)
    if (
        isinstance(value, cst.Call)
        and source.names(value.func) == {""}
        and source.code(value.func) == "dict"
    ):
        named = {arg.keyword.value: arg.value for arg in value.args if arg.keyword is not None}
        return dict(named) if len(named) == len(value.args) else None
    if isinstance(value, cst.IfExp):
        parts = [_dictionary(source, each, call) for each in (value.body, value.orelse)]
        return None if None in parts else {key: None for part in parts if part for key in part}
    if isinstance(value, cst.Name):
        return _named(source, value, call)
    return None


def _written(source: Source, value: cst.Dict) -> dict[str, cst.BaseExpression | None] | None:
    keys: dict[str, cst.BaseExpression | None] = {}
    for element in value.elements:
        key = source.literal(element.key) if isinstance(element, cst.DictElement) else None
        if not isinstance(key, str):
            return None
        keys[key] = element.value
    return keys


def _named(
    source: Source, name: cst.Name, call: cst.Call
) -> dict[str, cst.BaseExpression | None] | None:
    """A name that is bound once and only ever passed on by ``**``. What several calls take is not
    this call's to change."""
    bindings = source.assignments(name)
    if len(bindings) != 1 or not isinstance(bindings[0], metadata.Assignment):
        return None
    target = source.parent(bindings[0].node)
    statement = source.parent(target) if isinstance(target, cst.AssignTarget) else target
    if isinstance(statement, cst.Assign) and len(statement.targets) != 1:
        return None
    uses = [source.parent(use.node) for use in bindings[0].references]
    if not all(isinstance(use, cst.Arg) and use.star == "**" for use in uses):
        return None
    if not isinstance(statement, cst.Assign | cst.AnnAssign) or statement.value is None:
        return None
    found = _dictionary(source, statement.value, call)
    shared = any(source.parent(use) is not call for use in uses if use is not None)
    return dict.fromkeys(found) if found is not None and shared else found
