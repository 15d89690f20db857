"""One keyword argument of calls: its current value, and which of several calls is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import libcst as cst

from whyidle.model.patch import KnobChange
from whyidle.patches._source_tree import NO_LITERAL, SourceTree
from whyidle.patches._value_origin import find_origin, given_option


@dataclass(frozen=True, slots=True)
class Keyword:
    """One parameter of a function."""

    name: str
    default: Any  # value where the call does not pass it
    position: int | None = None  # among positional parameters; None: by keyword only


def argument_value(call: cst.Call, keyword: Keyword) -> cst.BaseExpression | None:
    """The expression that a call passes for a parameter, by keyword or position; None where it does
    not, or where only ``*`` or ``**`` could."""
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
    """The value of a call's parameter; ``NO_LITERAL`` where the file does not show it, or an option
    of the command decides it."""
    value = argument_value(call, keyword)
    if value is None:
        return NO_LITERAL if any(arg.star for arg in call.args) else keyword.default
    origin = find_origin(source, value)
    if origin is None or given_option(options, origin.options):
        return NO_LITERAL
    return origin.value


def matching_calls(
    source: SourceTree, calls: list[cst.Call], keyword: Keyword, change: KnobChange
) -> list[cst.Call]:
    """The calls that have the old value, or may have it: a trial changes the same ones. If none
    has, those on lines of the finding or looped over there; all without a known old value."""
    if change.was is None:
        return calls
    old = (change.was, change.value, NO_LITERAL, None)
    same = [call for call in calls if current_value(source, call, keyword, change.options) in old]
    return same or [call for call in calls if _loop_lines(source, call) & set(change.lines)]


def _loop_lines(source: SourceTree, call: cst.Call) -> set[int]:
    lines = set(source.lines_of(call))
    assigned = source.parent_of(call)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
        return lines
    target = source.code_of(assigned.targets[0].target)
    for loop in source.all_nodes(cst.For):
        arguments = loop.iter.args if isinstance(loop.iter, cst.Call) else ()
        if target in map(source.code_of, [loop.iter, *(arg.value for arg in arguments)]):
            lines.add(source.line_of(loop))
    return lines
