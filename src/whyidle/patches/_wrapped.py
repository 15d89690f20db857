"""Models that a file wraps with ``DistributedDataParallel``, and where they are called."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from whyidle.patches._source import Source

DDP = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)


@dataclass(frozen=True, slots=True)
class Wrapped:
    """The name that a wrapped model gets, and what the wrapping depends on; empty: nothing."""

    target: cst.Name | cst.Attribute
    name: str
    line: int
    condition: str

    def called(self, source: Source, node: cst.CSTNode) -> bool:
        """Whether it is certainly this one that is called within a node."""
        found = [c.func for c in source.inside(cst.Call, node) if source.code(c.func) == self.name]
        return any(self._is(source, function) for function in found)

    def _is(self, source: Source, function: cst.BaseExpression) -> bool:
        if isinstance(function, cst.Name):
            return any(
                getattr(bound, "node", None) is self.target
                for bound in source.assignments(function)
            )
        kind = cst.ClassDef
        return source.around(function, kind) is source.around(self.target, kind)


def wrapped(source: Source) -> list[Wrapped]:
    """Every wrapped model that gets a name."""
    found = []
    for call in source.calls(DDP):
        assigned = source.around(call, cst.Assign)
        if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
            continue
        target = assigned.targets[0].target
        if isinstance(target, cst.Name | cst.Attribute):
            condition = _condition(source, call)
            found.append(Wrapped(target, source.code(target), source.line(call), condition))
    return found


def _condition(source: Source, call: cst.Call) -> str:
    """What decides whether the model is wrapped, within its function."""
    above: cst.CSTNode | None = call
    while above is not None and not isinstance(above, cst.FunctionDef):
        if isinstance(above, cst.If | cst.IfExp) and "__name__" not in source.code(above.test):
            return source.code(above.test)
        above = source.parent(above)
    return ""
