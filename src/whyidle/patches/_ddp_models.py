"""Models that a file wraps with ``DistributedDataParallel``, and where they are called."""

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
    """The name that a wrapped model gets, and what the wrapping depends on; empty: nothing."""

    target: cst.Name | cst.Attribute
    name: str
    line: int
    condition: str

    def is_called(self, source: SourceTree, node: cst.CSTNode) -> bool:
        """Whether it is certainly this one that is called within a node."""
        found = [
            c.func
            for c in source.nodes_inside(cst.Call, node)
            if source.code_of(c.func) == self.name
        ]
        return any(self._is_same(source, function) for function in found)

    def _is_same(self, source: SourceTree, function: cst.BaseExpression) -> bool:
        if isinstance(function, cst.Name):
            return any(
                getattr(bound, "node", None) is self.target
                for bound in source.assignments_of(function)
            )
        kind = cst.ClassDef
        return source.enclosing_node(function, kind) is source.enclosing_node(self.target, kind)


def find_ddp_models(source: SourceTree) -> list[DdpModel]:
    """Every wrapped model that gets a name."""
    found = []
    for call in source.calls_of(DDP):
        assigned = source.enclosing_node(call, cst.Assign)
        if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
            continue
        target = assigned.targets[0].target
        if isinstance(target, cst.Name | cst.Attribute):
            condition = _wrapping_condition(source, call)
            found.append(DdpModel(target, source.code_of(target), source.line_of(call), condition))
    return found


def _wrapping_condition(source: SourceTree, call: cst.Call) -> str:
    """What decides whether the model is wrapped, within its function."""
    above: cst.CSTNode | None = call
    while above is not None and not isinstance(above, cst.FunctionDef):
        if isinstance(above, cst.If | cst.IfExp) and "__name__" not in source.code_of(above.test):
            return source.code_of(above.test)
        above = source.parent_of(above)
    return ""
