"""Adding a keyword argument to a call in the layout of the other arguments."""

from __future__ import annotations

import libcst as cst

from whyidle.patches._source_tree import parse_expression

_NOTHING = cst.SimpleWhitespace("")
_Space = cst.BaseParenthesizableWhitespace


def with_keyword(call: cst.Call, name: str, code: str) -> cst.Call:
    """The call with ``name=code`` after its last argument."""
    new = cst.Arg(
        keyword=cst.Name(name),
        value=parse_expression(code),
        equal=cst.AssignEqual(_NOTHING, _NOTHING),
    )
    args = list(call.args)
    if not args:
        return call.with_changes(args=[new])
    return call.with_changes(args=_insert_after(call, args, new))


def _insert_after(call: cst.Call, args: list[cst.Arg], new: cst.Arg) -> list[cst.Arg]:
    """Whitespace before the bracket stays there, and comments stay on their lines."""
    last = args[-1]
    comma = last.comma if isinstance(last.comma, cst.Comma) else None
    end = comma.whitespace_after if comma else last.whitespace_after_arg
    between = _space_before(call, args, len(args) - 1)
    lines = cst.ParenthesizedWhitespace
    if isinstance(between, lines) and isinstance(end, lines):
        gap: _Space = _without_comment(between).with_changes(first_line=end.first_line)
        end = _without_comment(end).with_changes(empty_lines=end.empty_lines)
    elif isinstance(end, lines) and end.first_line.comment is not None:
        gap, end = end, _NOTHING
    elif isinstance(between, lines):
        gap = _without_comment(between)
    else:
        gap = cst.SimpleWhitespace(" ")
    before = comma.whitespace_before if comma else _NOTHING
    last = last.with_changes(
        comma=cst.Comma(whitespace_before=before, whitespace_after=gap),
        whitespace_after_arg=_NOTHING,
    )
    if comma:
        new = new.with_changes(comma=cst.Comma(whitespace_after=end))
    else:
        new = new.with_changes(whitespace_after_arg=end)
    return [*args[:-1], last, new]


def _space_before(call: cst.Call, args: list[cst.Arg], at: int) -> _Space:
    if at == 0:
        return call.whitespace_before_args
    comma = args[at - 1].comma
    return comma.whitespace_after if isinstance(comma, cst.Comma) else _NOTHING


def _without_comment(space: _Space) -> _Space:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
