"""The names that a piece of a program binds."""

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
"""nodes with a target, including loop variables and deleted names"""
NAMES: tuple[type[Any], ...] = (cst.AsName, cst.Param)


def bound_names(source: SourceTree, node: cst.CSTNode) -> set[str]:
    """Names that a node, or a node within it, sets, deletes or takes as a parameter, as text."""
    targets = [bound.target for kind in TARGETS for bound in _nodes_within(source, kind, node)]
    targets += [bound.name for kind in NAMES for bound in _nodes_within(source, kind, node)]
    names = set()
    while targets:
        target = targets.pop()
        if isinstance(target, cst.Tuple | cst.List):
            targets += [element.value for element in target.elements]
        else:
            names.add(source.code_of(target))
    return names


def is_rebound(source: SourceTree, name: str, node: cst.CSTNode) -> bool:
    """Whether a dotted name, or a prefix of it, is bound within a node."""
    parts, bound = name.split("."), bound_names(source, node)
    return any(".".join(parts[:count]) in bound for count in range(1, len(parts) + 1))


def mentioned_names(source: SourceTree, node: cst.CSTNode) -> set[str]:
    """All names and attributes in a node, including the node itself, as text."""
    kinds: tuple[type[Any], ...] = (cst.Name, cst.Attribute)
    return {source.code_of(name) for kind in kinds for name in _nodes_within(source, kind, node)}


def names_set_by_calls(source: SourceTree, node: cst.CSTNode) -> set[str]:
    """Names that any called function may set: global and nonlocal names, attributes with augmented
    assignments, and attributes assigned in a function that is neither ``__init__`` nor the one
    around ``node``."""
    declared: tuple[type[Any], ...] = (cst.Global, cst.Nonlocal)
    plain: tuple[type[Any], ...] = (cst.AssignTarget, cst.AnnAssign)
    declarations = [statement for kind in declared for statement in source.all_nodes(kind)]
    shared = {item.name.value for statement in declarations for item in statement.names}
    assigned = [a for kind in plain for a in source.all_nodes(kind) if _is_outside(source, a, node)]
    changed = {source.code_of(a.target) for a in [*source.all_nodes(cst.AugAssign), *assigned]}
    return shared | {name for name in changed if "." in name}


def _is_outside(source: SourceTree, assigned: cst.CSTNode, node: cst.CSTNode) -> bool:
    function = source.enclosing_node(assigned, cst.FunctionDef)
    own = function is source.enclosing_node(node, cst.FunctionDef)
    return isinstance(function, cst.FunctionDef) and not own and function.name.value != "__init__"


def _nodes_within(source: SourceTree, kind: type[Any], node: cst.CSTNode) -> list[Any]:
    return [*source.nodes_inside(kind, node), *([node] if isinstance(node, kind) else [])]
