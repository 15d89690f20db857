"""Numbers that come to be kept on objects: ``self.total += loss.item()``.

What is kept there is read as soon as anybody looks at it (``_kept``), but for the places that make
something of it again that is kept on an object in turn, as ``self.mean = self.total / self.count``:
there it may be put off still. The text says which these are.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from ._script import SCOPES

if TYPE_CHECKING:
    from ._reads import Text

WORDS = re.compile(r"\b(__dict__|vars)\b")
"""how else than by its name what objects hold may be looked at"""


class Kept(NamedTuple):
    """An attribute, and the name of the variable whose it is; ``added``: it is added to in place,
    which a number must be for it."""

    owner: str
    name: str
    added: bool


def is_one(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether this is an attribute of what is in a variable."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


class Within:
    """What is kept, of one number, by the function that reads it."""

    def __init__(self, text: Text, place: ast.AST) -> None:
        self.text = text
        self.statement = self._statement(place)
        self.scope = self._scope(place)
        self.inside = inside = set(ast.walk(self.scope))
        self.attributes = [one for one in inside if is_one(one) and self._scope(one) is self.scope]
        self.set = {
            one.id for one in inside if isinstance(one, ast.Name) and type(one.ctx) is not ast.Load
        }
        """names that are given something else there"""
        self.kept: set[Kept] = set()
        self.again: dict[ast.Attribute, None] = {}

    def holds(self, node: ast.AST) -> bool:
        return node in self.inside

    def nested(self, node: ast.AST) -> bool:
        """Whether a function within that function has it."""
        return self._scope(node) is not self.scope

    def reaches(self, targets: list[ast.Attribute]) -> bool:
        """Whether these are attributes of what is in their variables where the number is read."""
        return all(self._scope(one) is self.scope and self._steady(one) for one in targets)

    def keep(self, targets: list[ast.Attribute]) -> None:
        """These come to hold it, and what is made of them there."""
        todo = list(targets)
        while todo:
            target = todo.pop()
            added = isinstance(self.text.around[target], ast.AugAssign)
            one = Kept(owner_of(target), target.attr, added)
            if one in self.kept:
                continue
            self.kept.add(one)
            for use in self.attributes:
                if (owner_of(use), use.attr) == one[:2]:
                    todo += self._made_again(use)

    def _made_again(self, use: ast.Attribute) -> list[ast.Attribute]:
        """What gets its number from there, if that is put off as well."""
        parent = self.text.around[use]
        if not self._steady(use):
            return []
        if isinstance(use.ctx, ast.Store):
            if isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Add | ast.Sub):
                self.again[use] = None
                return [use]
            return []
        way = self.text.bound(use, wide=True)
        if way is None or way.names or not self.reaches(way.kept):
            return []
        self.again[use] = None
        return way.kept

    def _steady(self, one: ast.Attribute) -> bool:
        """Whether its variable holds the same object all along, or is looked at with the number."""
        return owner_of(one) not in self.set or self._statement(one) is self.statement

    def found(self) -> dict[str, Any]:
        """For a ``Read``."""
        again = tuple(self.again)
        if sys.version_info < (3, 11):  # knows lines alone
            again = tuple(one for one in again if self._alone(one))
        return {"kept": frozenset(self.kept), "again": again}

    def _alone(self, one: ast.Attribute) -> bool:
        """Whether all that is done with an attribute of its name in its lines is as with it."""
        lines = range(one.lineno, (one.end_lineno or one.lineno) + 1)
        return all(
            use in self.again
            for use in self.text.around
            if isinstance(use, ast.Attribute) and use.attr == one.attr and use.lineno in lines
        )

    def _scope(self, node: ast.AST) -> ast.AST:
        while node in self.text.around:
            node = self.text.around[node]
            if isinstance(node, SCOPES):
                return node
        return self.text.tree

    def _statement(self, node: ast.AST) -> ast.AST:
        while not isinstance(node, ast.stmt):
            node = self.text.around[node]
        return node


def owner_of(one: ast.Attribute) -> str:
    return one.value.id if isinstance(one.value, ast.Name) else ""


def looked_into(text: Text) -> bool:
    """Whether a file looks at what objects hold other than by its name, but to show it:
    ``"{total}".format(**self.__dict__)``."""
    return bool(text.names.get("vars")) or any(
        isinstance(one, ast.Attribute) and one.attr == "__dict__" and not _shown(text, one)
        for one in text.around
    )


def _shown(text: Text, one: ast.Attribute) -> bool:
    keyword = text.around[one]
    if not isinstance(keyword, ast.keyword) or keyword.arg is not None:
        return False
    call = text.around[keyword]
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr == "format"
