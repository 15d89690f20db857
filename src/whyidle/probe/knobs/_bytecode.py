"""What code does with a variable, as far as its instructions tell (Python 3.10 to 3.14)."""

from __future__ import annotations

import dis
import types

ASKS = ("LOAD_ATTR", "LOAD_METHOD")
"""of a variable for an attribute"""
DYNAMIC = {"getattr", "vars", "__dict__", "__getattribute__"}
"""names of code that may ask for any attribute"""


def attributes_only(code: types.CodeType, name: str) -> bool:
    """Whether code, with all that lies in it, only ever asks a variable for attributes or sets
    them, and never hands the whole of it on. Doubt is a no."""
    celled = name in code.co_cellvars or name in code.co_freevars
    told = list(dis.get_instructions(code))
    for before, one, after in zip([None, *told], told, [*told[1:], None], strict=False):
        loaded = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        local = "FAST" in one.opname and not celled  # of one in a cell that makes a closure
        if not (local or "DEREF" in one.opname) or name not in loaded:
            continue
        if before is not None and before.argval == "__class__":  # super()
            continue
        used = after is not None and after.opname in (*ASKS, "STORE_ATTR")
        if not (one.opname.startswith("LOAD") and loaded.index(name) == len(loaded) - 1 and used):
            return False
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return all(attributes_only(each, name) for each in inner if name in each.co_freevars)


def asked_of(code: types.CodeType, attribute: str) -> set[str] | None:
    """What is asked of an attribute of that name, whose ever it is; None where it is handed on."""
    asked: set[str] = set()
    told = list(dis.get_instructions(code))
    for one, after in zip(told, [*told[1:], None], strict=True):
        if one.opname in ASKS and one.argval == attribute:
            if after is None or after.opname not in ASKS:
                return None
            asked.add(after.argval)
    return asked
