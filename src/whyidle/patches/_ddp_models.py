"""Models that a file wraps with ``DistributedDataParallel``, and their calls."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from whyidle.patches._source_tree import SourceTree

DDP = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)


@dataclass(frozen=True, slots=True)
class DdpModel:
    """A wrapped model with a name."""

    target: cst.Name | cst.Attribute
    name: str
    line: int
    condition: str  # on which the wrapping depends; empty: none

    def is_called(self, source: SourceTree, node: cst.CSTNode) -> bool:
        """Whether a node certainly calls this model."""
        functions = (call.func for call in source.nodes_inside(cst.Call, node))
        return any(source.code_of(f) == self.name and self._is_same(source, f) for f in functions)

    def _is_same(self, source: SourceTree, function: cst.BaseExpression) -> bool:
        if isinstance(function, cst.Name):
            bindings = source.assignments_of(function)
            return any(getattr(bound, "node", None) is self.target for bound in bindings)
        inside = source.enclosing_node(function, cst.ClassDef)
        return inside is source.enclosing_node(self.target, cst.ClassDef)


def find_ddp_models(source: SourceTree) -> list[DdpModel]:
    """Every wrapped model that is assigned to a name."""
    models = []
    for call in source.calls_of(DDP):
        assigned = source.enclosing_node(call, cst.Assign)
        if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
            continue
        target = assigned.targets[0].target
        if isinstance(target, cst.Name | cst.Attribute):
            condition = _wrapping_condition(source, call)
            models.append(DdpModel(target, source.code_of(target), source.line_of(call), condition))
    return models


def _wrapping_condition(source: SourceTree, call: cst.Call) -> str:
    above: cst.CSTNode | None = call
    while above is not None and not isinstance(above, cst.FunctionDef):
        if isinstance(above, cst.If | cst.IfExp) and "__name__" not in source.code_of(above.test):
            return source.code_of(above.test)
        above = source.parent_of(above)
    return ""
