"""Which reads of a number can be put off: those of which the text shows all that becomes of them.

A number may be summed up (``total += loss.item()``) or kept in a name, and the name may be shown,
compared or computed with: all of that works with a number that is read when it is asked for. It may
not be handed on as it is, returned, or put into a list or dict, where somebody might ask for its
type; and what it is added to in place must be a number itself, as an array would be added to, and a
number that is to be read could not be. A name is looked for in the whole file, so that other
functions' variables of that name count against it.
"""

from __future__ import annotations

import ast
import builtins
import logging
import math
from typing import Any, NamedTuple

LOOKS = frozenset(("print", "float", "int", "round", "abs", "str", "repr", "bool", "format"))
"""functions that take a number and keep nothing of it"""
NUMBERS = frozenset(("float", "int", "len", "round", "abs"))
"""functions that give a plain number"""
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
    inside: bool = False
    """whether it is in a dict that the method is given"""


class Text:
    """A file, and what is around each of its expressions."""

    def __init__(self, text: str, meanings: dict[str, Any]) -> None:
        self.tree = ast.parse(text)
        self.meanings = meanings
        """its global names"""
        self.main = meanings.get("__name__") == "__main__" and "__file__" in meanings
        """whether it is the script itself; a notebook's cells see each other's names"""
        self.around = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        self.names: dict[str, list[ast.Name]] = {}
        self.given: dict[str, list[ast.AST]] = {}
        """names, and what gives them a meaning that is no assignment"""
        for node in self.around:
            if isinstance(node, ast.Name):
                self.names.setdefault(node.id, []).append(node)
            elif name := _given(node):
                self.given.setdefault(name, []).append(node)

    def read(self, call: ast.Call) -> Read:
        """What becomes of what this call gives."""
        if any(self._spies(one) for name in SPIES for one in self.names.get(name, [])):
            return Read("the file looks at its own variables")
        parent = self.around[call]
        if method := self._handed_to(call):
            return Read("", method=method, inside=isinstance(parent, ast.Dict))
        fresh = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult | ast.Div)
        names = self._bound(parent if fresh else call)
        if names is None:
            return Read("it is used at once")
        return Read(self._against(names), fresh)

    def never_read(self, name: ast.Name) -> bool:
        """Whether nobody looks at what a name is given, as far as its function goes, or the script
        that was started."""
        scope: ast.AST | None = name
        while scope is not None and not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            scope = self.around.get(scope)
        if scope is None and not self.main:
            return False
        inside = list(ast.walk(scope or self.tree))
        shared = [one for one in inside if isinstance(one, ast.Global | ast.Nonlocal)]
        if any(name.id in one.names for one in shared):
            return False
        read = [n for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        return not any(n.id == name.id or (n.id in SPIES and self._spies(n)) for n in read)

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
        elif isinstance(parent, ast.AnnAssign):
            targets = [parent.target]
        elif isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Add | ast.Sub):
            targets = [parent.target] if self._numeric(parent.target) else []
        names = [one for one in targets if isinstance(one, ast.Name)]
        return names if names and len(names) == len(targets) else None

    def _numeric(self, name: ast.expr) -> bool:
        """Whether nothing but numbers are ever in a name."""
        if not isinstance(name, ast.Name) or self.given.get(name.id):
            return False
        stored = [one for one in self.names[name.id] if isinstance(one.ctx, ast.Store)]
        return all(self._number(self._value(one), name.id) for one in stored)

    def _value(self, name: ast.Name) -> ast.expr | None:
        """What a name is set to; None where that is not plain."""
        parent = self.around[name]
        if isinstance(parent, ast.AugAssign | ast.AnnAssign):
            return parent.value
        if isinstance(parent, ast.Tuple):  # a, b = 0.0, 0
            target, parent = parent, self.around[parent]
            values = getattr(parent, "value", None)
            if isinstance(values, ast.Tuple) and len(values.elts) == len(target.elts):
                return values.elts[target.elts.index(name)]
            return None
        return parent.value if isinstance(parent, ast.Assign) else None

    def _number(self, value: ast.expr | None, own: str) -> bool:
        if isinstance(value, ast.Constant):
            return type(value.value) in (int, float)
        if isinstance(value, ast.BinOp):
            return self._number(value.left, own) and self._number(value.right, own)
        if isinstance(value, ast.UnaryOp):
            return self._number(value.operand, own)
        if isinstance(value, ast.Name):
            return value.id == own
        if not isinstance(value, ast.Call):
            return False
        function = value.func
        named = isinstance(function, ast.Name) and function.id in NUMBERS
        return reads(value) or (named and self._usual(ast.unparse(function)))

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
            return function.id in LOOKS and self._usual(function.id)
        if not isinstance(function, ast.Attribute):
            return False
        owner = function.value
        if isinstance(owner, ast.Constant):
            return isinstance(owner.value, str) and function.attr == "format"
        if not isinstance(owner, ast.Name) or not all(map(self._on_top, self._given(owner.id))):
            return False
        meant = self.meanings.get(owner.id)
        logger = meant is logging or isinstance(meant, logging.Logger)
        return meant is math or (logger and function.attr in LEVELS)

    def _usual(self, name: str) -> bool:
        """Whether a function of Python's own is not hidden by another one of its name."""
        own = getattr(builtins, name)
        return not self._given(name) and self.meanings.get(name, own) is own

    def _given(self, name: str) -> list[ast.AST]:
        """Whatever gives a name a meaning."""
        stored = [one for one in self.names.get(name, []) if type(one.ctx) is not ast.Load]
        return [*stored, *self.given.get(name, [])]

    def _on_top(self, node: ast.AST) -> bool:
        """Whether it stands in no function or class."""
        inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        above = self.around.get(node)
        return above is None or (not isinstance(above, inner) and self._on_top(above))

    def _handed_to(self, call: ast.Call) -> str:
        """``self.writer.add_scalar``, where the number goes straight into a call of that."""
        parent: ast.AST = self.around[call]
        held = isinstance(parent, ast.keyword)
        if held or (isinstance(parent, ast.Dict) and call in parent.values):
            parent = self.around[parent]
        if not isinstance(parent, ast.Call) or not isinstance(parent.func, ast.Attribute):
            return ""
        node: ast.expr = parent.func
        while isinstance(node, ast.Attribute):
            node = node.value
        return ast.unparse(parent.func) if isinstance(node, ast.Name) else ""


def _given(node: ast.AST) -> str:
    """The name that a definition, an import, an argument or a pattern gives a meaning."""
    if isinstance(node, ast.alias):
        return node.asname or node.name.partition(".")[0]
    if isinstance(node, ast.arg):
        return node.arg
    name = getattr(node, "name", None)
    return name if isinstance(name, str) else ""


def reads(call: ast.Call) -> bool:
    alone = not call.args and not call.keywords
    return alone and isinstance(call.func, ast.Attribute) and call.func.attr == "item"
