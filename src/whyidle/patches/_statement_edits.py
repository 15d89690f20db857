"""Inserting statements: after the imports, and before or after another statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from whyidle.patches._source_tree import SourceTree

_HEAD = (cst.SimpleStatementLine, cst.Try, cst.If)


def imported_name(source: SourceTree, module: str = "torch") -> str | None:
    """The name of a module at the top of the file; None where it is not imported itself."""
    for statement in source.module.body:
        if _is_main(source, statement):
            continue
        for each in _imports_in(statement):
            if isinstance(each, cst.Import):
                for alias in each.names:
                    name = source.code_of(alias.name)
                    if name == module and alias.asname is not None:
                        return source.code_of(alias.asname.name)
                    if name.partition(".")[0] == module and alias.asname is None:
                        return module
    return None


def after_imports(source: SourceTree, code: str) -> tuple[cst.CSTNode, Callable[[Any], Any]] | None:
    """A change that inserts a line after the file's first imports, with ``{torch}`` filled in. None
    where they do not import PyTorch: then another file decides when it is loaded."""
    head = _import_head(source)
    names = {name for each in head for name in _imported_modules(source, each)}
    if "torch" not in names or not isinstance(head[-1], cst.SimpleStatementLine | cst.Try | cst.If):
        return None
    torch = imported_name(source)
    lines = ["", code.format(torch=torch or "torch")]
    lines = lines if torch else ["import torch", *lines]
    return head[-1], lambda last: cst.FlattenSentinel([last, *parse_statements(source, *lines)])


def _import_head(source: SourceTree) -> list[cst.CSTNode]:
    """The statements up to the last import before any definition."""
    head: list[cst.CSTNode] = []
    for statement in source.module.body:
        if not isinstance(statement, _HEAD) or _is_main(source, statement):
            break
        if not _imports_in(statement) and any(
            "torch" in _imported_modules(source, each) for each in head
        ):
            break
        head.append(statement)
    while head and not _imports_in(head[-1]):
        head.pop()
    return head


def _is_main(source: SourceTree, statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.If) and "__name__" in source.code_of(statement.test)


def _imports_in(statement: cst.CSTNode) -> list[cst.Import | cst.ImportFrom]:
    if isinstance(statement, cst.SimpleStatementLine):
        return [each for each in statement.body if isinstance(each, cst.Import | cst.ImportFrom)]
    if isinstance(statement, cst.If) and _is_type_checking(statement):
        return []
    if isinstance(statement, cst.Try | cst.If) and isinstance(statement.body, cst.IndentedBlock):
        return [each for inner in statement.body.body for each in _imports_in(inner)]
    return []


def _is_type_checking(statement: cst.If) -> bool:
    test = statement.test.attr if isinstance(statement.test, cst.Attribute) else statement.test
    return isinstance(test, cst.Name) and test.value == "TYPE_CHECKING"


def _imported_modules(source: SourceTree, statement: cst.CSTNode) -> set[str]:
    names: set[str] = set()
    for each in _imports_in(statement):
        if isinstance(each, cst.Import):
            names |= {source.code_of(alias.name).partition(".")[0] for alias in each.names}
        elif each.module is not None and not each.relative:
            names.add(source.code_of(each.module).partition(".")[0])
    return names


def parse_statements(source: SourceTree, *lines: str) -> list[cst.BaseStatement]:
    """Lines of code as statements; an empty line becomes part of the next one."""
    config = source.module.config_for_parsing
    module = cst.parse_module("\n".join(lines) + "\n", config)
    statements: list[Any] = list(module.body)
    if module.header:
        first = statements[0]
        leading = [*module.header, *first.leading_lines]
        statements[0] = first.with_changes(leading_lines=leading)
    return statements


def insert_before(source: SourceTree, *lines: str) -> Callable[[Any], Any]:
    """A change that inserts lines before a statement, below the blank lines above it."""

    def change(statement: Any) -> Any:
        first, *rest = parse_statements(source, *lines)
        above = list(statement.leading_lines)
        at = next((i for i, each in enumerate(above) if each.comment is not None), len(above))
        blank, own = above[:at], above[at:]
        first = first.with_changes(leading_lines=blank)
        return cst.FlattenSentinel([first, *rest, statement.with_changes(leading_lines=own)])

    return change


def put_under(source: SourceTree, head: str) -> Callable[[Any], Any]:
    """A change that wraps a statement in a block such as ``with x:``; comments stay above."""
    return lambda statement: _with_head(source, head, [statement])


def all_within(source: SourceTree, head: str, first: int, last: int) -> Callable[[Any], Any]:
    """The same for a range of a block's statements."""

    def change(block: Any) -> Any:
        body = list(block.body)
        outer = _with_head(source, head, body[first : last + 1])
        return block.with_changes(body=[*body[:first], outer, *body[last + 1 :]])

    return change


def _with_head(source: SourceTree, head: str, statements: list[Any]) -> cst.BaseStatement:
    (outer,) = parse_statements(source, head, "    pass")
    first, *rest = statements
    body = cst.IndentedBlock(body=[first.with_changes(leading_lines=[]), *rest])
    return outer.with_changes(leading_lines=first.leading_lines, body=body)
