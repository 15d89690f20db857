"""A file of a job's, and what its names mean in it, as far as its text tells."""

from __future__ import annotations

import ast
import builtins
from typing import Any

NUMBERS = frozenset(("float", "int", "len", "round", "abs"))
"""functions that give a plain number"""
SPIES = frozenset(("locals", "globals", "vars", "eval", "exec", "dir"))
"""functions through which names can be reached that the text does not show"""
SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
"""what has names of its own"""


class Script:
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

    def looked_at(self) -> bool:
        """Whether names can be reached that the text does not show."""
        return any(self._spies(one) for name in SPIES for one in self.names.get(name, []))

    def numeric(self, name: ast.expr) -> bool:
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
        return reads(value) or (named and self.usual(ast.unparse(function)))

    def private(self, name: ast.Name) -> bool:
        """Whether a name is a function's own, or of the script that was started."""
        node: ast.AST | None = name
        while node is not None and not isinstance(node, ast.ClassDef):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                return self.main or not any(
                    name.id in each.names for each in ast.walk(node) if isinstance(each, ast.Global)
                )
            node = self.around.get(node)
        return node is None and self.main

    def usual(self, name: str) -> bool:
        """Whether a function of Python's own is not hidden by another one of its name."""
        own = getattr(builtins, name)
        return not self.given_by(name) and self.meanings.get(name, own) is own

    def given_by(self, name: str) -> list[ast.AST]:
        """Whatever gives a name a meaning."""
        stored = [one for one in self.names.get(name, []) if type(one.ctx) is not ast.Load]
        return [*stored, *self.given.get(name, [])]

    def on_top(self, node: ast.AST) -> bool:
        """Whether it stands in no function or class."""
        above = self.around.get(node)
        return above is None or (not isinstance(above, SCOPES) and self.on_top(above))


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
