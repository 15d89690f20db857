"""Calls that a training loop makes in every step, made in every n-th step only."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._bindings import bound
from whyidle.patches._setter import Edits
from whyidle.patches._source import Source, source_of
from whyidle.patches._statements import within
from whyidle.patches._training import steps

CALLS = {
    "gc.collect_interval_steps": ("gc.collect",),
    "memory.empty_cache_every": (
        "torch.cuda.empty_cache",
        "torch.cuda.memory.empty_cache",
        "torch.accelerator.empty_cache",
        "torch.accelerator.memory.empty_cache",
        "torch.xpu.empty_cache",
        "torch.mps.empty_cache",
    ),
}


@source_form(*CALLS)
def thinning(text: str, change: Change) -> Rewrite:
    """A statement of its own in a training loop that counts its steps with ``enumerate``."""
    if not any(each.rpartition(".")[2] in text for each in CALLS[change.knob]):
        return Rewrite(text)
    source, edits = source_of(text), Edits()
    for call in source.calls(CALLS[change.knob]):
        loop = source.around(call, cst.For, cst.While, cst.FunctionDef)
        statement = source.parent(source.parent(call) or call)
        if not isinstance(loop, cst.For | cst.While) or not steps(source, loop):
            continue
        condition = source.around(call, cst.If, cst.For, cst.While)
        counter = _counter(source, loop)
        if not change.value:
            edits.why.append(f"line {source.line(call)}, which is to go altogether")
        elif isinstance(condition, cst.If):
            _conditional(source, edits, condition, call, change)
        elif counter and isinstance(statement, cst.SimpleStatementLine) and _alone(statement, call):
            edits.changes[statement] = within(source, f"if {counter} % {change.value} == 0:")
            edits.done = True
        else:
            edits.why.append(f"line {source.line(call)}, in a loop that does not count its steps")
    return edits.rewrite(source)


def _conditional(
    source: Source, edits: Edits, condition: cst.If, call: cst.Call, change: Change
) -> None:
    if source.code(condition.test).endswith(f" % {change.value} == 0"):
        edits.done = True
    else:
        said = source.code(condition.test)
        edits.why.append(f"line {source.line(call)} is called where `{said}`")


def _alone(statement: cst.SimpleStatementLine, call: cst.Call) -> bool:
    (first, *more) = statement.body
    return not more and isinstance(first, cst.Expr) and first.value is call


def _counter(source: Source, loop: cst.For | cst.While) -> str:
    """The number that ``enumerate`` gives a loop's steps, if nothing else sets it."""
    if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call):
        return ""
    target = loop.target
    if source.code(loop.iter.func) != "enumerate" or not isinstance(target, cst.Tuple):
        return ""
    name = source.code(target.elements[0].value)
    return "" if name in bound(source, loop.body) else name
