"""What a piece of a program binds: every way in which a name may come to stand for something."""

from __future__ import annotations

from typing import Any

import libcst as cst

from whyidle.patches._source import Source

TARGETS: tuple[type[Any], ...] = (
    cst.AssignTarget,
    cst.AugAssign,
    cst.AnnAssign,
    cst.NamedExpr,
    cst.For,
    cst.CompFor,
    cst.Del,
)
"""what has a target: a loop's variable and a name that is deleted count as well"""
NAMES: tuple[type[Any], ...] = (cst.AsName, cst.Param)


def bound(source: Source, node: cst.CSTNode) -> set[str]:
    """What a node, or something within it, sets, deletes or takes as a parameter, as text."""
    waiting = [one.target for kind in TARGETS for one in _of(source, kind, node)]
    waiting += [one.name for kind in NAMES for one in _of(source, kind, node)]
    found = set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, cst.Tuple | cst.List):
            waiting += [element.value for element in one.elements]
        else:
            found.add(source.code(one))
    return found


def rebound(source: Source, name: str, node: cst.CSTNode) -> bool:
    """Whether a dotted name, or what it begins with, is bound within a node."""
    parts, there = name.split("."), bound(source, node)
    return any(".".join(parts[:count]) in there for count in range(1, len(parts) + 1))


def named(source: Source, node: cst.CSTNode) -> set[str]:
    """All names and attributes that a node speaks of, the node itself included, as text."""
    kinds: tuple[type[Any], ...] = (cst.Name, cst.Attribute)
    return {source.code(one) for kind in kinds for one in _of(source, kind, node)}


def elsewhere(source: Source, node: cst.CSTNode) -> set[str]:
    """What something that is called may set, whoever calls it: names that functions share, and
    attributes that are counted anywhere, or set in a function that neither makes the object nor
    is around ``node``."""
    shared = {each.name.value for one in source.every(cst.Global) for each in one.names}
    shared |= {each.name.value for one in source.every(cst.Nonlocal) for each in one.names}
    counted = {source.code(one.target) for one in source.every(cst.AugAssign)}
    plain: tuple[type[Any], ...] = (cst.AssignTarget, cst.AnnAssign)
    counted |= {
        source.code(one.target)
        for kind in plain
        for one in source.every(kind)
        if _in_another(source, one, node)
    }
    return shared | {name for name in counted if "." in name}


def _in_another(source: Source, one: cst.CSTNode, node: cst.CSTNode) -> bool:
    function = source.around(one, cst.FunctionDef)
    own = function is source.around(node, cst.FunctionDef)
    return isinstance(function, cst.FunctionDef) and not own and function.name.value != "__init__"


def _of(source: Source, kind: type[Any], node: cst.CSTNode) -> list[Any]:
    return [*source.inside(kind, node), *([node] if isinstance(node, kind) else [])]
