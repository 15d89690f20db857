"""What the code of a method mentions, with that of its own class which it calls."""

from __future__ import annotations

import inspect
import types
from typing import Any

MOST = 64
"""pieces of code that are looked into"""


def names_of(function: Any, kind: type | None = None) -> set[str]:
    """The names of globals and attributes in its code, in functions within it, and in what it names
    of ``kind``, the class that it is bound to unless told otherwise."""
    kind = kind or type(getattr(function, "__self__", None))
    names: set[str] = set()
    seen: set[types.CodeType] = set()
    waiting = [_code(function)]
    while waiting and len(seen) < MOST:
        code = waiting.pop()
        if code is None or code in seen:
            continue
        seen.add(code)
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
        waiting += [_code(inspect.getattr_static(kind, name, None)) for name in code.co_names]
        names |= {*code.co_names}
    return names


def _code(function: Any) -> types.CodeType | None:
    """That of a function, a property, or a method of whatever kind."""
    for name in ("fget", "__func__", "__wrapped__"):
        function = getattr(function, name, None) or function
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None
