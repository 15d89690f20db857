"""What a piece of a program binds: every way in which a name may come to stand for something."""

from __future__ import annotations

from typing import Any

import libcst as cst

from whyidle.patches._source_tree import SourceTree

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


def bound_names(source: SourceTree, node: cst.CSTNode) -> set[str]:
    """What a node, or something within it, sets, deletes or takes as a parameter, as text."""
    waiting = [one.target for kind in TARGETS for one in _nodes_within(source, kind, node)]
    waiting += [one.name for kind in NAMES for one in _nodes_within(source, kind, node)]
    found = set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, cst.Tuple | cst.List):
            waiting += [element.value for element in one.elements]
        else:
            found.add(source.code_of(one))
    return found


def is_rebound(source: SourceTree, name: str, node: cst.CSTNode) -> bool:
    """Whether a dotted name, or what it begins with, is bound within a node."""
    parts, there = name.split("."), bound_names(source, node)
    return any(".".join(parts[:count]) in there for count in range(1, len(parts) + 1))


def mentioned_names(source: SourceTree, node: cst.CSTNode) -> set[str]:
    """All names and attributes that a node speaks of, the node itself included, as text."""
    kinds: tuple[type[Any], ...] = (cst.Name, cst.Attribute)
    return {source.code_of(one) for kind in kinds for one in _nodes_within(source, kind, node)}


def names_set_by_calls(source: SourceTree, node: cst.CSTNode) -> set[str]:
    """What something that is called may set, whoever calls it: names that functions share, and
    attributes that are counted anywhere, or set in a function that neither makes the object nor
    is around ``node``."""
    shared = {each.name.value for one in source.all_nodes(cst.Global) for each in one.names}
    shared |= {each.name.value for one in source.all_nodes(cst.Nonlocal) for each in one.names}
    counted = {source.code_of(one.target) for one in source.all_nodes(cst.AugAssign)}
    plain: tuple[type[Any], ...] = (cst.AssignTarget, cst.AnnAssign)
    counted |= {
        source.code_of(one.target)
        for kind in plain
        for one in source.all_nodes(kind)
        if _in_another(source, one, node)
    }
    return shared | {name for name in counted if "." in name}


def _in_another(source: SourceTree, one: cst.CSTNode, node: cst.CSTNode) -> bool:
    function = source.enclosing_node(one, cst.FunctionDef)
    own = function is source.enclosing_node(node, cst.FunctionDef)
    return isinstance(function, cst.FunctionDef) and not own and function.name.value != "__init__"


def _nodes_within(source: SourceTree, kind: type[Any], node: cst.CSTNode) -> list[Any]:
    return [*source.nodes_inside(kind, node), *([node] if isinstance(node, kind) else [])]
