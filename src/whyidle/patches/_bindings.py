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


def _nodes_within(source: SourceTree, kind: type[Any], node: cst.CSTNode) -> list[Any]:
    return [*source.nodes_inside(kind, node), *([node] if isinstance(node, kind) else [])]
