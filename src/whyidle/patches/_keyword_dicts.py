"""Arguments that a call takes by ``**`` from a dictionary that the file writes out."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
from libcst import metadata

from whyidle.patches._source_tree import SourceTree

_Values = dict[str, "cst.BaseExpression | None"]


@dataclass(frozen=True, slots=True)
class DoubleStar:
    """Keyword -> the expression of its value; None where the run decides it."""

    keys: _Values


def double_star_values(source: SourceTree, call: cst.Call) -> DoubleStar | None:
    """Arguments that a call takes by ``**``; None where they are not evident, or it takes ``*``."""
    keys: _Values = {}
    for arg in call.args:
        if arg.star == "*":
            return None
        if arg.star == "**":
            values = _dictionary_values(source, arg.value, call)
            if values is None:
                return None
            keys |= values
    return DoubleStar(keys)


def _dictionary_values(
    source: SourceTree, value: cst.BaseExpression, call: cst.Call
) -> _Values | None:
    if isinstance(value, cst.Dict):
        return _literal_values(source, value)
    if (
        isinstance(value, cst.Call)
        and source.qualified_names(value.func) == {""}
        and source.code_of(value.func) == "dict"
    ):
        named = {arg.keyword.value: arg.value for arg in value.args if arg.keyword is not None}
        return dict(named) if len(named) == len(value.args) else None
    if isinstance(value, cst.IfExp):
        parts = [_dictionary_values(source, each, call) for each in (value.body, value.orelse)]
        return None if None in parts else {key: None for part in parts if part for key in part}
    if isinstance(value, cst.Name):
        return _named_values(source, value, call)
    return None


def _literal_values(source: SourceTree, value: cst.Dict) -> _Values | None:
    keys: _Values = {}
    for element in value.elements:
        key = source.literal_value(element.key) if isinstance(element, cst.DictElement) else None
        if not isinstance(key, str):
            return None
        keys[key] = element.value
    return keys


def _named_values(source: SourceTree, name: cst.Name, call: cst.Call) -> _Values | None:
    """A name that is bound once and only used by ``**``. Values that several calls take must not be
    changed."""
    bindings = source.assignments_of(name)
    if len(bindings) != 1 or not isinstance(bindings[0], metadata.Assignment):
        return None
    target = source.parent_of(bindings[0].node)
    statement = source.parent_of(target) if isinstance(target, cst.AssignTarget) else target
    if isinstance(statement, cst.Assign) and len(statement.targets) != 1:
        return None
    uses = [source.parent_of(use.node) for use in bindings[0].references]
    if not all(isinstance(use, cst.Arg) and use.star == "**" for use in uses):
        return None
    if not isinstance(statement, cst.Assign | cst.AnnAssign) or statement.value is None:
        return None
    values = _dictionary_values(source, statement.value, call)
    shared = any(source.parent_of(use) is not call for use in uses if use is not None)
    return dict.fromkeys(values) if values is not None and shared else values
