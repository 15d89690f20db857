"""The training precision of a framework, where the call that creates it does not set another
one."""

from __future__ import annotations

from dataclasses import replace

from whyidle.model.patch import KnobChange, Rewrite
from whyidle.patches._keyword_argument import Keyword, current_value
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import SourceTree


def set_mixed_precision(
    source: SourceTree,
    change: KnobChange,
    makers: tuple[str, ...],
    keyword: Keyword,
    *,
    full: tuple[object, ...],
    wanted: str,
) -> Rewrite:
    """Set ``wanted``, the framework's word for bfloat16 autocast, where it trains in ``full``
    precision."""
    if change.value != "bfloat16":
        return Rewrite(source.text)
    setter = KeywordSetter(source, keyword, replace(change, value=wanted, was=None))
    calls = []
    for call in source.calls_of(makers):
        if current_value(source, call, keyword) in (*full, wanted):
            calls.append(call)
        else:
            setter.leave_call(call, "sets another precision")
    return setter.set_keyword(calls)
