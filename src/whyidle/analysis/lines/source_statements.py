"""Statements of the user's source, and the names that they read, set and change."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

TRAINS: Final = frozenset({"backward", "manual_backward", "zero_grad", "grad"})
"""methods that run a backward pass, or prepare one"""
_OPTIMIZER: Final = re.compile(r"opt(im|imizer)?s?(_\w+)?$|^scaler$|sched", re.IGNORECASE)
_IN_PLACE: Final = re.compile(r"[a-z\d]_$")
"""methods that change a tensor, such as ``mul_``"""
_STATE: Final = frozenset({"grad", "data", "requires_grad", "param_groups"})
CONTAINERS: Final = frozenset(
    {"append", "extend", "add", "update", "insert", "appendleft", "setdefault", "put"}
)
"""methods that change the object that they are called on, and nothing else"""


FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class Statement:
    """One simple statement, or the head of a compound one, and the heads around it."""

    node: ast.stmt
    around: tuple[ast.stmt, ...]
    sets: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
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
        return False
    return name in TRAINS or (name == "step" and bool(_OPTIMIZER.search(last_name(function.value))))


def last_name(node: ast.AST) -> str:
    """Return the last name of a dotted expression, or of what is indexed or called."""
    while isinstance(node, ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def names_in(node: ast.AST | None) -> set[str]:
    """Return names, and dotted names of ``self``, that an expression reads."""
    names: set[str] = set()
    for child in ast.walk(node) if node is not None else ():
        if isinstance(getattr(child, "ctx", None), ast.Store):
            continue
        if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
            names.add(child.attr if child.value.id == "self" else child.value.id)
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
        is_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        return {node.attr} if is_self else targets_of(node.value)
    return {node.id} if isinstance(node, ast.Name) else set()


def assignment_targets(node: ast.AST) -> list[ast.AST]:
    """Return what a statement assigns to."""
    if isinstance(node, ast.Assign):
        return list(node.targets)
    if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        return [node.target]
    return []


def changes_state(function: ast.AST) -> bool:
    """Return whether code changes tensors, gradients or an optimizer's settings."""
    return any(
        sets_state(node) or (isinstance(node, ast.Call) and changes_tensor(node))
        for node in own_nodes(function)
    )


def sets_state(node: ast.AST) -> bool:
    """Return whether a statement sets weights, gradients or an optimizer's settings."""
    return any(isinstance(t, ast.Attribute) and t.attr in _STATE for t in assignment_targets(node))


def changes_tensor(call: ast.Call) -> bool:
    """Return whether a call changes a tensor in place, loads weights or runs a backward pass."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return bool(_IN_PLACE.search(name)) or name in ("load_state_dict", *TRAINS)


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
        for handler in getattr(node, "handlers", []):
            yield from statements_of(handler.body, (*around, node))


def heads_of(node: ast.stmt) -> list[ast.AST]:
    """Return the expressions of a statement without the statements inside it."""
    if not hasattr(node, "body"):
        return [node]
    heads = [getattr(node, part, None) for part in ("test", "iter", "target")]
    return [head for head in (*heads, *getattr(node, "items", ())) if head is not None]


def describe_statement(one: Statement, origins: dict[str, set[str]]) -> None:
    """Note which names a statement sets or changes, and which it reads. ``origins`` are the objects
    that names are parts of: who changes ``group`` of ``opt.param_groups`` changes ``opt``."""
    for target in assignment_targets(one.node):
        one.sets |= targets_of(target)
        if isinstance(target, ast.Name):
            source = getattr(one.node, "iter", getattr(one.node, "value", None))
            origins[target.id] = targets_of(source) if source is not None else set()
        else:
            one.sets |= set().union(*(origins.get(name, set()) for name in one.sets))
    if isinstance(one.node, ast.AugAssign):
        one.reads |= one.sets
    for head in heads_of(one.node):
        one.reads |= names_in(_loss_in(head))
        for call in calls_in(head):
            if isinstance(call.func, ast.Attribute):
                one.sets |= _changed_by(call, one.node)
        one.sets |= {
            child.target.id
            for child in ast.walk(head)
            if isinstance(child, ast.NamedExpr) and isinstance(child.target, ast.Name)
        }
    for item in getattr(one.node, "items", ()):
        one.sets |= targets_of(item.optional_vars) if item.optional_vars is not None else set()


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
    return targets_of(call.func.value) if known else set()
