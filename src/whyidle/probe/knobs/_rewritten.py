"""Functions of a job whose code does attention in one kernel where it wrote it out.

The text of their file is compiled once more, with what was found (``_written_out``) written as
calls, and the functions are given that code; the file, their names and their lines stay.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from .. import loaded
from . import Hand
from ._asking import text_of
from ._attending import Attending
from ._reads import Text
from ._written_out import ATTENDING, Attention, Operation, Rewriting


def rewrite(hand: Hand, kinds: set[type], attending: Attending) -> str:
    """Have the job's own classes, and functions of their files, attend so. Why they cannot, as far
    as one could tell; empty where nothing was found, or all of it is done."""
    whys = []
    for name in dict.fromkeys(kind.__module__ for kind in kinds):
        names = vars(sys.modules.get(name, object))
        path = names.get("__file__")
        if path and not loaded.is_installed(path) and ATTENDING not in names:
            whys.append(_file(hand, path, sys.modules[name].__dict__, attending))
    return next(filter(None, whys), "")


def _file(hand: Hand, path: str, names: dict[str, Any], attending: Attending) -> str:
    text = text_of(path, names)
    if text is None:
        return ""
    found: dict[ast.AST, Operation] = {}
    todo, why = [], ""
    for node, function in _functions(text, names):
        attention = Attention(text, node)
        why = why or (attention.why and f"{os.path.basename(path)}: {attention.why}")
        if attention.found and text_of(path, names, function.__code__) is not None:
            found |= attention.found
            todo.append(function)
    if todo:
        whole = compile(Rewriting(found).visit(text.tree), path, "exec", dont_inherit=True)
        names[ATTENDING] = attending
        hand.undo.append(functools.partial(names.pop, ATTENDING, None))
    for function in todo:
        _give(hand, function, _code(whole, function.__code__))
    return why


def _functions(text: Text, names: dict[str, Any]) -> Iterator[tuple[ast.FunctionDef, FunctionType]]:
    """Those of a file's top, and the methods of its classes, that are what the text says."""
    for node in text.tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        held = names if inside == [node] else vars(names.get(getattr(node, "name", ""), object))
        for one in inside:
            if isinstance(one, ast.FunctionDef) and not one.decorator_list:
                live = held.get(one.name)
                if type(live) is FunctionType and live.__code__.co_firstlineno == one.lineno:
                    yield one, live


def _code(whole: CodeType, old: CodeType) -> CodeType | None:
    """The code that is in the place of an old one."""
    for one in whole.co_consts:
        if not isinstance(one, CodeType):
            continue
        if (one.co_name, one.co_firstlineno) == (old.co_name, old.co_firstlineno):
            return one if one.co_freevars == old.co_freevars else None
        if found := _code(one, old):
            return found
    return None


def _give(hand: Hand, function: FunctionType, code: CodeType | None) -> None:
    if code is not None:
        hand.undo.append(functools.partial(setattr, function, "__code__", function.__code__))
        function.__code__ = code
