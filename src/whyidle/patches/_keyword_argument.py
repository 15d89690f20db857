"""One keyword argument of calls: what a call passes for it, and which of several calls is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import libcst as cst

from whyidle.model.patch import KnobChange
from whyidle.patches._double_star import double_star_values
from whyidle.patches._source_tree import NO_LITERAL, SourceTree
from whyidle.patches._value_origin import find_origin, given_option


@dataclass(frozen=True, slots=True)
class Keyword:
    """One parameter of a function: its place among positional ones (None: by keyword only), and
    what it is where the call says nothing."""

    name: str
    default: Any
    position: int | None = None


def argument_value(call: cst.Call, keyword: Keyword) -> cst.BaseExpression | None:
    """What a call passes for a parameter, by keyword or by place; None where it does not, or where
    only a ``*`` or ``**`` could."""
    for place, arg in enumerate(call.args):
        if arg.star:
            if arg.star == "*":
                break
            continue
        if arg.keyword is not None and arg.keyword.value == keyword.name:
            return arg.value
        if arg.keyword is None and place == keyword.position:
            return arg.value
    return next(
        (arg.value for arg in call.args if arg.keyword and arg.keyword.value == keyword.name), None
    )


def current_value(
    source: SourceTree, call: cst.Call, keyword: Keyword, options: tuple[str, ...] = ()
) -> Any:
    """What a call's parameter is, as far as the file tells; ``NO_LITERAL`` where it does not, or
    where one of the command's options tells instead."""
    value = argument_value(call, keyword)
    if value is None:
        known = double_star_values(source, call)
        if known is None:
            return NO_LITERAL
        if keyword.name not in known.keys:
            return keyword.default
        value = known.keys[keyword.name]
    found = find_origin(source, value) if value is not None else None
    if found is None or given_option(options, found.options):
        return NO_LITERAL
    return found.value


def matching_calls(
    source: SourceTree, calls: list[cst.Call], keyword: Keyword, change: KnobChange
) -> list[cst.Call]:
    """The calls that have the old value, or may have it: a trial changes the same ones. Where none
    has, those that lines of the finding lie in or loop over; all where no old value is known."""
    if change.was is None:
        return calls
    old = (change.was, change.value, NO_LITERAL, None)
    same = [call for call in calls if current_value(source, call, keyword, change.options) in old]
    return same or [call for call in calls if _loop_lines(source, call) & set(change.lines)]


def _loop_lines(source: SourceTree, call: cst.Call) -> set[int]:
    """Lines of a call, and of the heads of loops over what it is assigned to."""
    lines = set(source.lines_of(call))
    assigned = source.parent_of(call)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
        return lines
    target = source.code_of(assigned.targets[0].target)
    for loop in source.all_nodes(cst.For):
        passed = [loop.iter, *(_argument_nodes(loop.iter))]
        if target in [source.code_of(each) for each in passed]:
            lines.add(source.line_of(loop))
    return lines


def _argument_nodes(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [arg.value for arg in node.args] if isinstance(node, cst.Call) else []
