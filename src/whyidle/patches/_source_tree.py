"""A user's file as a concrete syntax tree: its calls, their places, and what its names mean.

Everything that is not changed is written exactly as it was read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

import libcst as cst
from libcst import metadata

Node = TypeVar("Node", bound=cst.CSTNode)
Table = TypeVar("Table")
Changes = Mapping[cst.CSTNode, Callable[[Any], Any]]
"""node of the tree -> function from the node, with the changes within it, to its replacement"""


def parse_expression(code: str) -> cst.BaseExpression:
    """The tree of an expression.

    Raises:
        SyntaxError: the code is no expression.
    """
    try:
        return cst.parse_expression(code)
    except cst.ParserSyntaxError as error:
        raise SyntaxError(error.message) from error


class _Missing:
    """The value of a node that is no literal."""


NO_LITERAL: Final = _Missing()


class SourceTree:
    """A parsed file.

    Raises:
        SyntaxError: the text cannot be parsed.
    """

    def __init__(self, text: str) -> None:
        try:
            self._wrapper = metadata.MetadataWrapper(cst.parse_module(text))
        except cst.ParserSyntaxError as error:
            raise SyntaxError(error.message) from error
        self.text = text
        self._kinds: dict[type[cst.CSTNode], list[Any]] = {}
        self._tables: dict[Callable[[SourceTree], Any], Any] = {}
        self.module = self._wrapper.module
        self._positions = self._wrapper.resolve(metadata.PositionProvider)
        self._names = self._wrapper.resolve(metadata.QualifiedNameProvider)
        self._parents = self._wrapper.resolve(metadata.ParentNodeProvider)
        self._scopes = self._wrapper.resolve(metadata.ScopeProvider)

    def all_nodes(self, kind: type[Node]) -> Iterator[Node]:
        """All nodes of a kind, in the order of the text."""
        if kind not in self._kinds:
            nodes = [node for node in self._positions if isinstance(node, kind)]
            self._kinds[kind] = sorted(nodes, key=self._start_position)
        yield from self._kinds[kind]

    def nodes_inside(self, kind: type[Node], outer: cst.CSTNode) -> list[Node]:
        """All nodes of a kind within another, in the order of the text."""
        start, end = self._start_position(outer), self._end_position(outer)
        return [
            node
            for node in self.all_nodes(kind)
            if node is not outer
            and start <= self._start_position(node)
            and self._end_position(node) <= end
        ]

    def _end_position(self, node: cst.CSTNode) -> tuple[int, int]:
        end = self._positions[node].end
        return end.line, end.column

    def _start_position(self, node: cst.CSTNode) -> tuple[int, int]:
        start = self._positions[node].start
        return start.line, start.column

    def qualified_names(self, node: cst.CSTNode) -> set[str]:
        """Full names of what a name or attribute refers to by imports; several where the run
        decides."""
        found = self._names.get(node, set())
        names = found() if callable(found) else found
        imported = metadata.QualifiedNameSource.IMPORT
        return {each.name if each.source is imported else "" for each in names}

    def set_by(self, target: cst.BaseExpression) -> set[str]:
        """Full names of an assignment's target, or of all of its parts."""
        if isinstance(target, cst.Tuple | cst.List):
            return {name for each in target.elements for name in self.set_by(each.value)}
        return self.qualified_names(target)

    def calls_of(self, names: Iterable[str]) -> list[cst.Call]:
        """Calls of functions that certainly have one of these full names."""
        wanted = set(names)
        calls = ((call, self.qualified_names(call.func)) for call in self.all_nodes(cst.Call))
        return [call for call, found in calls if found and found <= wanted]

    def line_of(self, node: cst.CSTNode) -> int:
        """The line on which a node starts, from 1."""
        return self._start_position(node)[0]

    def lines_of(self, node: cst.CSTNode) -> range:
        """All lines that a node covers."""
        place = self._positions[node]
        return range(place.start.line, place.end.line + 1)

    def code_of(self, node: cst.CSTNode) -> str:
        """The text of a node."""
        return self.module.code_for_node(node)

    def literal_value(self, node: cst.CSTNode | None) -> Any:
        """A literal's value; ``NO_LITERAL`` for other nodes."""
        if node is None:
            return NO_LITERAL
        try:
            return ast.literal_eval(self.code_of(node).strip())
        except (ValueError, SyntaxError):
            return NO_LITERAL

    def parent_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The parent node."""
        return self._parents.get(node)

    def enclosing_node(self, node: cst.CSTNode, *kinds: type[cst.CSTNode]) -> cst.CSTNode | None:
        """The innermost node of these kinds around a node."""
        above = self.parent_of(node)
        while above is not None and not isinstance(above, kinds):
            above = self.parent_of(above)
        return above

    def all_around(self, node: cst.CSTNode, kind: type[Node]) -> Iterator[Node]:
        """All nodes of a kind around a node, from the innermost."""
        above = self.parent_of(node)
        while above is not None:
            if isinstance(above, kind):
                yield above
            above = self.parent_of(above)

    def assignments_of(self, name: cst.Name) -> list[metadata.BaseAssignment]:
        """Every binding that a name may refer to."""
        scope = self._scopes.get(name)
        return list(scope[name.value]) if scope is not None else []

    def make_once(self, make: Callable[[SourceTree], Table]) -> Table:
        """The result of a function of the file, cached."""
        if make not in self._tables:
            self._tables[make] = make(self)
        table: Table = self._tables[make]
        return table

    def replace_nodes(self, changes: Changes) -> str:
        """The text with nodes replaced."""
        return self.module.visit(_Replace(changes)).code if changes else self.text


@lru_cache(maxsize=32)
def source_of(text: str) -> SourceTree:
    """The parsed text, cached because parsing is slow.

    Raises:
        SyntaxError: the text cannot be parsed.
    """
    return SourceTree(text)


class _Replace(cst.CSTTransformer):
    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        change = self._changes.get(original_node)
        return change(updated_node) if change is not None else updated_node
