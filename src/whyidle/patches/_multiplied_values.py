"""Multiplying an argument: ``batch_size=16`` becomes ``16 * 4``.

The factor stays visible, so that readers of the patch see both numbers, and a multiplied argument
can be recognised.
"""

from __future__ import annotations

import libcst as cst

from whyidle.patches._call_layout import with_keyword
from whyidle.patches._keyword_argument import Keyword, argument_value
from whyidle.patches._keyword_dicts import double_star_values
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._source_tree import SourceTree

_SIMPLE = (cst.Name, cst.Attribute, cst.Integer, cst.Float, cst.Call, cst.Subscript)
"""expressions that need no brackets in a product"""


def format_factor(value: float) -> str:
    """A factor as Python writes it, without a needless ``.0``."""
    return repr(int(value)) if value == int(value) else repr(value)


def multiply_argument(
    source: SourceTree,
    edits: FileEdits,
    call: cst.Call,
    keyword: Keyword,
    factor: str,
    *,
    whole: bool = False,
) -> None:
    """Multiply an argument of a call, or its default; ``whole``: rounded to an integer. Arguments
    from ``*`` or ``**`` elsewhere are left, with the reason."""
    value, known = argument_value(call, keyword), double_star_values(source, call)
    inside = known is not None and keyword.name in known.keys
    if value is None and known is not None and inside:
        value = known.keys[keyword.name]
    if value is None and (known is None or inside):
        line = source.line_of(call)
        edits.why.append(f"line {line} takes {keyword.name} from elsewhere (`*` or `**`)")
    elif value is None:
        code = _product_code(repr(keyword.default), factor, whole)
        edits.changes[call] = lambda new: with_keyword(new, keyword.name, code)
        edits.done = True
    elif is_multiplied(source, value, factor):
        edits.why.append(
            f"line {source.line_of(call)} has {keyword.name}={source.code_of(value)} already"
        )
    elif source.literal_value(value) is None:
        edits.why.append(
            f"line {source.line_of(call)} has {keyword.name}=None, which nothing multiplies"
        )
    else:
        plain = isinstance(value, _SIMPLE) or value.lpar
        text = source.code_of(value)
        edits.replace_expression(
            value, _product_code(text if plain else f"({text})", factor, whole)
        )


def _product_code(code: str, factor: str, whole: bool) -> str:
    return f"round({code} * {factor})" if whole else f"{code} * {factor}"


def is_multiplied(source: SourceTree, value: cst.BaseExpression, factor: str) -> bool:
    """Whether an expression is a product with the factor."""
    code = source.code_of(value)
    return code.endswith((f" * {factor}", f" * {factor})"))
