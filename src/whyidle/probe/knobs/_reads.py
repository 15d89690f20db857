"""Which reads of a number can be put off: those of which the text shows all that becomes of them.

A number may be summed up (``total += loss.item()``) or kept in a name, and the name may be shown,
compared or computed with: all of that works with a number that is read when it is asked for. It may
not be handed on as it is, returned, or put into a list or dict, where somebody might ask for its
type; and what it is added to in place must be a number itself, as an array would be added to, and a
number that is to be read could not be. A name is looked for in the whole file, so that other
functions' variables of that name count against it. It may be kept on an object (``_attributes``).

Products are put off, too, where all that is made of them is known as well.
"""

from __future__ import annotations

import ast
import logging
import math
from typing import NamedTuple

from . import _attributes
from ._later import FOLDS
from ._script import Script, reads

SUMS = ast.Add, ast.Sub
PRODUCTS = ast.Mult, ast.Div
LOOKS = frozenset(("print", "float", "int", "round", "abs", "str", "repr", "bool", "format"))
"""functions that take a number and keep nothing of it"""
LEVELS = frozenset(("debug", "info", "warning", "error", "critical"))
"""methods of Python's loggers that put numbers into text"""


class Read(NamedTuple):
    """Of one place in a script: why it cannot be put off (empty where it can), whether what follows
    at once is a product or a quotient, and the method that is called with it, as it is written:
    then it depends on whose method that is."""

    why: str
    fresh: bool = False
    method: str = ""
    inside: bool = False
    """whether it is in a dict that the method is given"""
    argument: int | str = 0
    """of the method, which of them it is"""
    wide: bool = False
    """whether all products with it may be put off"""
    fold: str = ""
    """``max`` or ``min``, where it is given to that at once"""
    kept: frozenset[_attributes.Kept] = frozenset()
    """attributes that come to hold it, or something made of it"""
    again: tuple[ast.Attribute, ...] = ()
    """where these are looked at, and it may be put off still"""


class Way(NamedTuple):
    """What is given a number, or what is made of it at once."""

    names: list[ast.Name]
    kept: list[ast.Attribute]
    fold: str = ""


class Text(Script):
    """A file, and what becomes of numbers in it."""

    def read(self, call: ast.Call) -> Read:
        """What becomes of what this call gives."""
        if self.looked_at():
            return Read("the file looks at its own variables")
        if method := self._handed_to(call):
            inside = isinstance(self.around[call], ast.Dict)
            return Read("", method=method, inside=inside, argument=self._argument(call))
        whole = self._becoming(call, wide=True)
        return self._becoming(call, wide=False) if whole.why else whole

    def _becoming(self, call: ast.Call, wide: bool) -> Read:
        parent = self.around[call]
        fresh = not wide and isinstance(parent, ast.BinOp) and isinstance(parent.op, PRODUCTS)
        way = self.bound(parent if fresh else call, wide)
        if way is None:
            return Read("it is used at once")
        read = Read("", fresh=fresh, wide=wide, fold=way.fold)
        return self.against(way, read, _attributes.Within(self, call))

    def parameter(self, function: ast.FunctionDef, name: str) -> Read:
        """What becomes of a number that a method is given as one of its arguments."""
        within = _attributes.Within(self, function.body[0])
        uses = [one for one in self.names.get(name, []) if within.holds(one)]
        way = Way([], [])
        for use in uses:
            more = self.bound(use, wide=True)
            if self._looks(use, wide=True):
                continue
            if more is None or not within.reaches(more.kept):
                return Read(f"{name} is handed on in line {use.lineno}")
            way.names.extend(more.names)
            way.kept.extend(more.kept)
        if self.looked_at() or name in within.set or any(map(within.nested, uses)):
            return Read(f"{name} is not only what {function.name} is given")
        return self.against(way, Read("", wide=True), within)

    def bound(self, node: ast.AST, wide: bool) -> Way | None:
        """What is given this, or what is made with it; None where something else is done."""
        parent, fold = self.around[node], self._fold(node)
        if fold:
            node, parent = parent, self.around[parent]
        lazy = (*SUMS, *PRODUCTS) if wide else SUMS
        while isinstance(parent, ast.BinOp) and isinstance(parent.op, lazy):
            node, parent = parent, self.around[parent]
        targets: list[ast.expr] = []
        if isinstance(parent, ast.Assign):
            targets = parent.targets
        elif isinstance(parent, ast.AnnAssign):
            targets = [parent.target]
        elif isinstance(parent, ast.AugAssign) and isinstance(parent.op, SUMS):
            targets = [parent.target]
            if isinstance(parent.target, ast.Name) and not self.numeric(parent.target):
                return None
        names = [one for one in targets if isinstance(one, ast.Name)]
        kept = [one for one in targets if _attributes.is_one(one)]
        whole = targets and len(names) + len(kept) == len(targets)
        return Way(names, kept, fold) if whole else None

    def _fold(self, node: ast.AST) -> str:
        """``max`` or ``min``, where it gets this and another number, one of them just read."""
        call = self.around[node]
        if not isinstance(call, ast.Call) or call.keywords or len(call.args) != 2:
            return ""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        read = any(isinstance(one, ast.Call) and reads(one) for one in call.args)
        known = name in FOLDS and node in call.args and self.usual(name)
        return name if known and read else ""

    def against(self, way: Way, read: Read, within: _attributes.Within) -> Read:
        """Why these, and those that get their numbers from them, cannot hold such a number."""
        known, todo = set[str](), list(way.names)
        within.keep(way.kept)
        while todo:
            name = todo.pop()
            if not self.private(name):
                return Read(f"{name.id} can be seen from outside of the file")
            if name.id in known:
                continue
            known.add(name.id)
            for use in self.names[name.id]:
                if isinstance(use.ctx, ast.Load) and not self._looks(use, read.wide):
                    more = self.bound(use, read.wide)
                    if more is None or not within.reaches(more.kept):
                        return Read(f"{name.id} is handed on in line {use.lineno}")
                    within.keep(more.kept)
                    todo += more.names
        return read._replace(**within.found())

    def _looks(self, node: ast.AST, wide: bool) -> bool:
        """Whether a number is read here and not handed on."""
        parent = self.around[node]
        if isinstance(parent, ast.Tuple):  # of "%s %s" % (one, another)
            node, parent = parent, self.around[parent]
            return isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod)
        if isinstance(parent, ast.BinOp):
            lazy = isinstance(parent.op, (*SUMS, *PRODUCTS) if wide else SUMS)
            return self._looks(parent, wide) if lazy else not isinstance(parent.op, ast.MatMult)
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
            return function.id in LOOKS and self.usual(function.id)
        if not isinstance(function, ast.Attribute):
            return False
        owner = function.value
        if isinstance(owner, ast.Constant):
            return isinstance(owner.value, str) and function.attr == "format"
        if not isinstance(owner, ast.Name) or not all(map(self.on_top, self.given_by(owner.id))):
            return False
        meant = self.meanings.get(owner.id)
        logger = meant is logging or isinstance(meant, logging.Logger)
        return meant is math or (logger and function.attr in LEVELS)

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

    def _argument(self, call: ast.Call) -> int | str:
        """Which argument of what it is handed to it is: its number, or name; empty where that is
        not written."""
        parent = self.around[call]
        if isinstance(parent, ast.keyword):
            return parent.arg or ""
        if not isinstance(parent, ast.Call) or any(isinstance(n, ast.Starred) for n in parent.args):
            return ""
        return parent.args.index(call)
