"""What a training program plainly shows: its training loops, its model, its evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from whyidle.patches._source import Source


def method(call: cst.Call) -> str:
    """The name of the method that a call calls; empty for calls of plain names."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def trains(source: Source, node: cst.CSTNode) -> bool:
    """Whether a backward pass or an optimizer's step is called within a node."""
    called = {method(call) for call in source.inside(cst.Call, node)}
    return bool(called & {"backward", "step", "manual_backward"})


def training_loops(source: Source) -> list[cst.For]:
    """The innermost ``for`` loops that call a backward pass."""
    found = [
        source.around(call, cst.For, cst.FunctionDef)
        for call in source.every(cst.Call)
        if method(call) in ("backward", "manual_backward")
    ]
    return list(dict.fromkeys(loop for loop in found if isinstance(loop, cst.For)))


@dataclass(frozen=True, slots=True)
class Model:
    """What an optimizer trains: the name, and the statement that makes the optimizer."""

    name: str
    statement: cst.SimpleStatementLine


def models(source: Source) -> list[Model]:
    """Every ``NAME.parameters()`` that is given to an optimizer of PyTorch."""
    found = []
    for call in source.every(cst.Call):
        if method(call) != "parameters" or not isinstance(call.func, cst.Attribute):
            continue
        maker = source.around(call, cst.Call)
        while maker is not None and not _optimizer(source, maker):
            maker = source.around(maker, cst.Call)
        statement = source.around(call, cst.SimpleStatementLine)
        if maker is not None and isinstance(statement, cst.SimpleStatementLine):
            found.append(Model(source.code(call.func.value), statement))
    return found


def _optimizer(source: Source, call: cst.CSTNode) -> bool:
    names = source.names(call.func) if isinstance(call, cst.Call) else set()
    return bool(names) and all(name.startswith("torch.optim.") for name in names)


def only(source: Source) -> Model | None:
    """The file's one model, where an optimizer is made for one only, and in one place."""
    found = models(source)
    plain = found and all(part.isidentifier() for part in found[0].name.split("."))
    return found[0] if len(found) == 1 and plain else None
