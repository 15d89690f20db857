"""Training loops, models and evaluation that a program shows plainly."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from whyidle.patches._bindings import is_rebound
from whyidle.patches._source_tree import SourceTree


def called_method(call: cst.Call) -> str:
    """The name of the called method; empty for calls of plain names."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def has_step(source: SourceTree, node: cst.CSTNode) -> bool:
    """Whether a node calls a backward pass or an optimizer's step."""
    called = {called_method(call) for call in source.nodes_inside(cst.Call, node)}
    return bool(called & {"backward", "step", "manual_backward"})


@dataclass(frozen=True, slots=True)
class Model:
    """The name of a model that an optimizer trains, and the statement that makes the optimizer."""

    name: str
    statement: cst.CSTNode


def trained_models(source: SourceTree) -> list[Model]:
    """Every ``NAME.parameters()`` passed to an optimizer of PyTorch. Where a part of a called
    object is trained, the whole object is the model, as at run time."""
    found = dict[Model, None]()
    called = {source.code_of(call.func) for call in source.all_nodes(cst.Call)}
    for call in source.all_nodes(cst.Call):
        if called_method(call) != "parameters" or not isinstance(call.func, cst.Attribute):
            continue
        maker = source.enclosing_node(call, cst.Call)
        while maker is not None and not _is_optimizer(source, maker):
            maker = source.enclosing_node(maker, cst.Call)
        statement = source.enclosing_node(call, cst.SimpleStatementLine)
        if maker is not None and isinstance(statement, cst.SimpleStatementLine):
            found[Model(_outermost_object(source.code_of(call.func.value), called), statement)] = (
                None
            )
    return list(found)


def _outermost_object(name: str, called: set[str]) -> str:
    parts = name.split(".")
    owners = (".".join(parts[:number]) for number in range(1, len(parts)))
    return next((owner for owner in owners if owner in called), name)


def _is_optimizer(source: SourceTree, call: cst.CSTNode) -> bool:
    names = source.qualified_names(call.func) if isinstance(call, cst.Call) else set()
    return bool(names) and all(name.startswith("torch.optim.") for name in names)


def single_model(source: SourceTree) -> Model | None:
    """The file's only model, if its optimizer is made in one place, or in one of several
    branches."""
    found = trained_models(source)
    if len({each.name for each in found}) != 1:
        return None
    name = found[0].name
    place = found[0].statement if len(found) == 1 else _branching_statement(source, found)
    plain = all(part.isidentifier() for part in name.split("."))
    plain &= not any(is_rebound(source, name, each.statement) for each in found)
    return Model(name, place) if place is not None and plain else None


def _branching_statement(source: SourceTree, found: list[Model]) -> cst.CSTNode | None:
    """The statement with all these branches, unless it also chooses the model."""
    inside = [_branches_around(source, each.statement) for each in found]
    shared = [each for each in inside[0] if all(each in others for others in inside)]
    if not shared:
        return None
    return None if is_rebound(source, found[0].name, shared[0]) else shared[0]


def _branches_around(source: SourceTree, node: cst.CSTNode) -> list[cst.CSTNode]:
    found = []
    above = source.enclosing_node(node, cst.If, cst.Match, cst.FunctionDef)
    while isinstance(above, cst.If | cst.Match):
        if not isinstance(source.parent_of(above), cst.If):  # an ``elif`` is no statement
            found.append(above)
        above = source.enclosing_node(above, cst.If, cst.Match, cst.FunctionDef)
    return list[cst.CSTNode](found)
