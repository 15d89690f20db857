"""Which reads of a number can be put off: those of which the text shows all that becomes of them.

A number may be summed up (``total += loss.item()``) or kept in a name, and the name may be shown,
compared or computed with: all of that works with a number that is read when it is asked for. It may
not be handed on as it is, returned, or put into a list or dict, where somebody might ask for its
type. A name is looked for in the whole file, so that other functions' variables of that name count
against it.
"""

from __future__ import annotations

import ast
import linecache
import logging
import math
import sys
from types import CodeType, FrameType
from typing import Any, NamedTuple

LOOKS = frozenset(("print", "float", "int", "round", "abs", "str", "repr", "bool", "format"))
"""functions that take a number and keep nothing of it"""
LEVELS = frozenset(("debug", "info", "warning", "error", "critical"))
"""methods of Python's loggers that put numbers into text"""
SPIES = frozenset(("locals", "globals", "vars", "eval", "exec", "dir"))
"""functions through which names can be reached that the text does not show"""


class Read(NamedTuple):
    """Of one place in a script: why it cannot be put off (empty where it can), whether what follows
    at once is a product or a quotient, and the method that is called with it, as it is written:
    then it depends on whose method that is."""

    why: str
    fresh: bool = False
    method: str = ""


class Text:
    """A file, and what is around each of its expressions."""

    def __init__(self, text: str, meanings: dict[str, Any]) -> None:
        self.tree = ast.parse(text)
        self.meanings = meanings
        """its global names"""
        self.main = meanings.get("__name__") == "__main__"
        self.around = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        self.names: dict[str, list[ast.Name]] = {}
        self.calls: list[ast.Call] = []
        for node in self.around:
            if isinstance(node, ast.Name):
                self.names.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Call) and _reads(node):
                self.calls.append(node)

    def read(self, call: ast.Call) -> Read:
        """What becomes of what this call gives."""
        if any(self._spies(one) for name in SPIES for one in self.names.get(name, [])):
            return Read("the file looks at its own variables")
        if any(self._stored(name) for name in LOOKS):
            return Read("the file gives a function like print another meaning")
        parent = self.around[call]
        if method := _handed_to(parent, call):
            return Read("", method=method)
        fresh = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult | ast.Div)
        names = self._bound(parent if fresh else call)
        if names is None:
            return Read("it is used at once")
        return Read(self._against(names), fresh)

    def _spies(self, name: ast.Name) -> bool:
        call = self.around[name]
        of_something = isinstance(call, ast.Call) and call.func is name and bool(call.args)
        return not (name.id in ("vars", "dir") and of_something)

    def _bound(self, node: ast.AST) -> list[ast.Name] | None:
        """The names that are given this, or sums with it; None where something else is done."""
        parent = self.around[node]
        while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub):
            node, parent = parent, self.around[parent]
        targets: list[ast.expr] = []
        if isinstance(parent, ast.Assign):
            targets = parent.targets
        elif isinstance(parent, ast.AnnAssign) or (
            isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Add | ast.Sub)
        ):
            targets = [parent.target]
        names = [one for one in targets if isinstance(one, ast.Name)]
        return names if names and len(names) == len(targets) else None

    def _against(self, names: list[ast.Name]) -> str:
        """Why these, and those that get their numbers from them, cannot hold such a number."""
        known, todo = set[str](), list(names)
        while todo:
            name = todo.pop()
            if not self._private(name):
                return f"{name.id} can be seen from outside of the file"
            if name.id in known:
                continue
            known.add(name.id)
            for use in self.names[name.id]:
                if isinstance(use.ctx, ast.Load) and not self._looks(use):
                    more = self._bound(use)
                    if more is None:
                        return f"{name.id} is handed on in line {use.lineno}"
                    todo += more
        return ""

    def _private(self, name: ast.Name) -> bool:
        """Whether a name is a function's own, or of the script that was started."""
        node: ast.AST | None = name
        while node is not None and not isinstance(node, ast.ClassDef):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                return self.main or not any(
                    name.id in each.names for each in ast.walk(node) if isinstance(each, ast.Global)
                )
            node = self.around.get(node)
        return node is None and self.main

    def _looks(self, node: ast.AST) -> bool:
        """Whether a number is read here and not handed on."""
        parent = self.around[node]
        if isinstance(parent, ast.Tuple):  # of "%s %s" % (one, another)
            node, parent = parent, self.around[parent]
            return isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod)
        if isinstance(parent, ast.BinOp):
            lazy = isinstance(parent.op, ast.Add | ast.Sub)
            return self._looks(parent) if lazy else not isinstance(parent.op, ast.MatMult)
        if isinstance(parent, ast.If | ast.While | ast.Assert | ast.IfExp):
            return parent.test is node
        if isinstance(parent, ast.keyword):  # of "{name}".format(name=one)
            node, parent = parent, self.around[parent]
        if isinstance(parent, ast.Call):
            return node is not parent.func and self._looking(parent.func)
        return isinstance(parent, ast.FormattedValue | ast.Compare | ast.UnaryOp | ast.Expr)

    def _looking(self, function: ast.expr) -> bool:
        """Whether this is known to look at a number and to keep nothing of it."""
        if isinstance(function, ast.Name):
            return function.id in LOOKS
        if not isinstance(function, ast.Attribute):
            return False
        owner = function.value
        if isinstance(owner, ast.Constant):
            return isinstance(owner.value, str) and function.attr == "format"
        if not isinstance(owner, ast.Name) or len(self._stored(owner.id)) > 1:
            return False
        meant = self.meanings.get(owner.id)
        logger = meant is logging or isinstance(meant, logging.Logger)
        return meant is math or (logger and function.attr in LEVELS)

    def _stored(self, name: str) -> list[ast.Name]:
        return [one for one in self.names.get(name, []) if type(one.ctx) is not ast.Load]


def _handed_to(parent: ast.AST, call: ast.Call) -> str:
    """``self.writer.add_scalar``, where the number goes straight into a call of that."""
    if not isinstance(parent, ast.Call) or call not in parent.args:
        return ""
    node = parent.func
    while isinstance(node, ast.Attribute):
        node = node.value
    is_method = isinstance(parent.func, ast.Attribute) and isinstance(node, ast.Name)
    return ast.unparse(parent.func) if is_method else ""


def meant(method: str, frame: FrameType) -> tuple[type, str]:
    """Whose method that is in a frame, and its name; nobody's where it takes more than a look."""
    first, *names, last = method.split(".")
    found = frame.f_locals.get(first, frame.f_globals.get(first))
    for name in names:
        found = getattr(found, "__dict__", {}).get(name)
    return type(found), last


def _reads(call: ast.Call) -> bool:
    alone = not call.args and not call.keywords
    return alone and isinstance(call.func, ast.Attribute) and call.func.attr == "item"


def looked_up(frame: FrameType, texts: dict[str, Text | None]) -> Read:
    """What becomes of the number that is read where ``frame`` is now."""
    code = frame.f_code
    if code.co_filename not in texts:
        texts[code.co_filename] = _text(frame)
    text = texts[code.co_filename]
    if text is None:
        return Read("its text is not there")
    found = [call for call in text.calls if _is_at(call, code, frame)]
    return text.read(found[0]) if len(found) == 1 else Read("it is not found in the text")


def _text(frame: FrameType) -> Text | None:
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        return Text("".join(lines), frame.f_globals)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _is_at(call: ast.Call, code: CodeType, frame: FrameType) -> bool:
    """Its end tells: where a chain of calls over several lines begins, versions of Python differ.
    Python 3.10 knows the line alone."""
    if sys.version_info < (3, 11):
        return call.lineno <= frame.f_lineno <= (call.end_lineno or call.lineno)
    for number, (_, line, _, column) in enumerate(code.co_positions()):
        if number == frame.f_lasti // 2:
            return (line, column) == (call.end_lineno, call.end_col_offset)
    return False
