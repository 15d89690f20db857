"""The precision that a framework trains in, where the call that makes it says no other."""

from __future__ import annotations

from dataclasses import replace

from whyidle.model.patch import Change, Rewrite
from whyidle.patches._keyword import Keyword, current
from whyidle.patches._setter import Setter
from whyidle.patches._source import Source


def mixed(
    source: Source,
    change: Change,
    makers: tuple[str, ...],
    keyword: Keyword,
    *,
    full: tuple[object, ...],
    wanted: str,
) -> Rewrite:
    """``wanted``, the framework's word for bfloat16 under autocast, where it trains in ``full``
    precision."""
    if change.value != "bfloat16":
        return Rewrite(source.text)
    setter = Setter(source, keyword, replace(change, value=wanted, was=None))
    free = []
    for call in source.calls(makers):
        if current(source, call, keyword) in (*full, wanted):
            free.append(call)
        else:
            setter.leave(call, "sets a precision of its own")
    return setter.set(free)
