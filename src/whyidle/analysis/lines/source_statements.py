"""Statements of the user's source, and the names that they read, set and change."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

TRAINS: Final = frozenset(
    {"backward", "manual_backward", "zero_grad", "grad", "value_and_grad"}
    | {"gradient", "apply_gradients", "apply_updates", "minimize"}
)
"""methods that run a backward pass, prepare one, or apply its result"""
_OPTIMIZER: Final = re.compile(r"opt(im|imizer)?s?(_\w+)?$|^scaler$|sched", re.IGNORECASE)
CONTAINERS: Final = frozenset(
    {"append", "extend", "add", "update", "insert", "appendleft", "setdefault", "put"}
)
"""methods that change the object that they are called on, and nothing else"""


FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Statement(Struct):
    """One simple statement, or the head of a compound one, and the heads around it."""

    node: ast.stmt
    around: tuple[ast.stmt, ...]
    sets: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    """those of them whose object stays and is changed"""
    reads: set[str] = field(default_factory=set)
    mentions: set[str] = field(default_factory=set)
    """the user's functions that it calls or hands on"""
    needed: bool = False
    unknown: bool = False
    """needed only because the source does not show what its call changes"""


def parse_source(text: str) -> ast.Module | None:
    """Parse a file's text; None if it is no Python."""
    try:
        return ast.parse(text)
    except (ValueError, SyntaxError, RecursionError):
        return None


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield everything inside a function, functions and classes defined in it left out."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTION, ast.ClassDef, ast.Lambda)):
            yield child
            yield from own_nodes(child)


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in an expression or a function."""
    if isinstance(node, ast.Call):
        yield node
    yield from (child for child in own_nodes(node) if isinstance(child, ast.Call))


def called_name(call: ast.Call) -> str:
    """Return the name of the function or method that is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_training_call(call: ast.Call) -> bool:
    """Return whether a call runs a backward pass or an optimizer's step."""
    name, function = called_name(call), call.func
    if not isinstance(function, ast.Attribute):
        return name == "value_and_grad"
    return name in TRAINS or (name == "step" and bool(_OPTIMIZER.search(last_name(function.value))))


def last_name(node: ast.AST) -> str:
    """Return the last name of a dotted expression, or of what is indexed or called."""
    while isinstance(node, ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def names_in(node: ast.AST | None) -> set[str]:
    """Return names that an expression reads, attributes with a dot before them."""
    names: set[str] = set()
    for child in ast.walk(node) if node is not None else ():
        if isinstance(getattr(child, "ctx", None), ast.Store):
            continue
        if isinstance(child, ast.Attribute):
            names.add(f".{child.attr}")
        elif isinstance(child, ast.Name) and child.id != "self":
            names.add(child.id)
    return names


def targets_of(node: ast.AST) -> set[str]:
    """Return names that an assignment to ``node`` sets or changes."""
    if isinstance(node, ast.Tuple | ast.List):
        return set().union(*map(targets_of, node.elts)) if node.elts else set()
    if isinstance(node, ast.Starred | ast.Subscript):
        return targets_of(node.value)
    if isinstance(node, ast.Attribute):
        return {f".{node.attr}"} | targets_of(node.value)
    return {node.id} if isinstance(node, ast.Name) and node.id != "self" else set()


def assignment_targets(node: ast.AST) -> list[ast.AST]:
    """Return what a statement assigns to."""
    if isinstance(node, ast.Assign):
        return list(node.targets)
    if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        return [node.target]
    return []


def lines_of(node: ast.stmt) -> range:
    """Return the lines of a simple statement, or of the head of a compound one."""
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return range(node.lineno, max(last, node.lineno) + 1)


def statements_of(body: list[ast.stmt], around: tuple[ast.stmt, ...]) -> Iterator[Statement]:
    """Yield the statements of a function in order, those inside others too."""
    for node in body:
        if isinstance(node, (*FUNCTION, ast.ClassDef)):
            continue
        yield Statement(node, around)
        for part in ("body", "orelse", "finalbody"):
            yield from statements_of(getattr(node, part, []), (*around, node))
        for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from statements_of(inner.body, (*around, node))


def heads_of(node: ast.stmt) -> list[ast.AST]:
    """Return the expressions of a statement without the statements inside it."""
    if not hasattr(node, "body") and not hasattr(node, "cases"):
        return [node]
    heads = [getattr(node, part, None) for part in ("test", "iter", "target", "subject")]
    return [head for head in (*heads, *getattr(node, "items", ())) if head is not None]


def describe_statement(one: Statement) -> None:
    """Note which names a statement sets, which of them are objects that it changes, and which names
    it reads."""
    for target in assignment_targets(one.node):
        one.sets |= targets_of(target)
        if not isinstance(target, ast.Name | ast.Tuple) or isinstance(one.node, ast.AugAssign):
            one.changes |= targets_of(target)
    if isinstance(one.node, ast.AugAssign):
        one.reads |= one.sets
    for head in heads_of(one.node):
        one.reads |= names_in(_loss_in(head))
        for call in calls_in(head):
            if isinstance(call.func, ast.Attribute):
                one.changes |= _changed_by(call, one.node)
        one.sets |= {
            child.id
            for child in ast.walk(head)
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
        }
    one.sets |= one.changes


def _loss_in(node: ast.AST) -> ast.AST:
    """The loss of a returned dictionary that names one, else the whole expression."""
    value = node.value if isinstance(node, ast.Return) else None
    if isinstance(value, ast.Dict):
        for key, part in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "loss":
                return part
    return node


def _changed_by(call: ast.Call, node: ast.stmt) -> set[str]:
    """Names of objects that a method call may change: always if nothing takes its result."""
    alone = isinstance(node, ast.Expr) and node.value is call
    assert isinstance(call.func, ast.Attribute)
    known = call.func.attr in CONTAINERS or alone
    return names_in(call.func.value) if known else set()
