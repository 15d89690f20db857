"""Exchanging gradients once per step: ``no_sync()`` around the other micro-batches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._bindings import bound_names, mentioned_names, names_set_by_calls
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._statement_edits import all_within, at_the_top
from whyidle.patches._training_loops import called_method

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


OWN = ("no_sync", "require_backward_grad_sync")
USES = {"step", "unscale_", "clip_grad_norm_", "clip_grad_value_"}
"""methods that need complete gradients"""


@source_form("ddp.no_sync")
def accumulation(text: str, _: KnobChange) -> Rewrite:
    """Wraps the statements from the wrapped model's call to the backward pass, in a loop that steps
    under a condition: gradients are exchanged only where it holds. The condition must be known
    before the forward pass, and model and loop must evidently belong together."""
    if "DistributedDataParallel" not in text or "backward" not in text:
        return Rewrite(text)
    source, edits = source_of(text), FileEdits()
    models = find_ddp_models(source)
    backward = [call for call in source.all_nodes(cst.Call) if called_method(call) == "backward"]
    if not models or not backward:
        return edits.rewrite_file(source)
    own = [name for name in source.all_nodes(cst.Name) if name.value in OWN]
    if own:
        edits.done = any(isinstance(source.enclosing_node(n, cst.IfExp), cst.IfExp) for n in own)
        if not edits.done:
            edits.why.append(f"line {source.line_of(own[0])} already controls it")
    elif len(backward) > 1:
        edits.why.append(f"line {source.line_of(backward[0])} is one of several backward passes")
    else:
        _wrap_microbatches(source, edits, models, backward[0])
    return edits.rewrite_file(source)


def _wrap_microbatches(
    source: SourceTree, edits: FileEdits, models: list[DdpModel], backward: cst.Call
) -> None:
    line = source.enclosing_node(backward, cst.SimpleStatementLine)
    block = source.parent_of(line) if line is not None else None
    place = f"line {source.line_of(backward)}"
    if not isinstance(block, cst.IndentedBlock) or not isinstance(
        source.parent_of(block), cst.For | cst.While
    ):
        edits.why.append(f"{place} is not a statement in a loop over micro-batches")
        return
    body = list(block.body)
    last = next(number for number, each in enumerate(body) if each is line)
    called = [(i, model) for i, each in enumerate(body[: last + 1])
              for model in models if model.is_called(source, each)]  # fmt: skip
    end = next((i for i in range(last + 1, len(body)) if _needs_gradients(source, body[i])), None)
    if not called:
        edits.why.append(f"{place}: the call of the wrapped model is not clear")
        return
    first, model = called[0]
    condition = body[end] if end is not None else None
    if model.condition:
        edits.why.append(f"line {model.line} wraps the model only where `{model.condition}`")
    elif end is None and (final := _final_pass(source, block)):
        head = f"with {_nullcontext_name(source, edits)}() if {final} else {model.name}.no_sync():"
        edits.changes[block] = all_within(source, head, first, last)
        edits.done = True
    elif end is None or not isinstance(condition, cst.If) or condition.orelse is not None:
        edits.why.append(f"{place}: the step has no condition")
    elif also := _other_step_line(source, condition):
        edits.why.append(f"line {also} steps as well, maybe with gradients that were not exchanged")
    elif not _is_stable(source, condition.test, body[first:end]) or any(
        _needs_gradients(source, each) for each in body[:end]
    ):
        text = source.code_of(condition.test)
        edits.why.append(f"{place}: whether `{text}` is unknown before the forward pass")
    else:
        which = f"{_condition_text(source, condition)} else {model.name}"
        head = f"with {_nullcontext_name(source, edits)}() if {which}.no_sync():"
        edits.changes[block] = all_within(source, head, first, last)
        edits.done = True


def _final_pass(source: SourceTree, block: cst.IndentedBlock) -> str:
    """The condition of the last pass of ``for NAME in range(COUNT)`` over micro-batches, behind
    which the step stands; empty where another pass may be the last one."""
    loop = source.parent_of(block)
    outer = source.parent_of(loop) if isinstance(loop, cst.For) else None
    if not isinstance(loop, cst.For) or not isinstance(outer, cst.IndentedBlock | cst.Module):
        return ""
    behind = next(i for i, each in enumerate(outer.body, 1) if each is loop)
    steps = any(_needs_gradients(source, each) for each in outer.body[behind:])
    counted, target = loop.iter, loop.target
    within = any(_needs_gradients(source, each) for each in block.body)
    if within or not steps or not isinstance(counted, cst.Call) or not isinstance(target, cst.Name):
        return ""
    if source.code_of(counted.func) != "range" or len(counted.args) != 1:
        return ""
    count = counted.args[0].value
    known = isinstance(count, cst.Integer | cst.Name | cst.Attribute)
    written = {name for each in block.body for name in _names_set(source, each)}
    leaves = [*source.nodes_inside(cst.Break, block), *source.nodes_inside(cst.Continue, block)]
    asked = {target.value, source.code_of(count), *mentioned_names(source, count)}
    if not known or leaves or asked & written:
        return ""
    return f"{target.value} == {source.code_of(count)} - 1"


def _nullcontext_name(source: SourceTree, edits: FileEdits) -> str:
    for statement in source.module.body:
        for each in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(each, cst.Import):
                if any(source.code_of(alias) == "contextlib" for alias in each.names):
                    return "contextlib.nullcontext"
            elif isinstance(each, cst.ImportFrom) and isinstance(each.names, tuple | list):
                named = [a for a in each.names if source.code_of(a.name) == "nullcontext"]
                module = source.code_of(each.module) if each.module is not None else ""
                if named and module == "contextlib":
                    alias = named[0].asname
                    return source.code_of(alias.name) if alias is not None else "nullcontext"
    top = at_the_top(source, "import contextlib")
    assert top is not None  # there is a loop
    edits.changes[top[0]] = top[1]
    return "contextlib.nullcontext"


def _needs_gradients(source: SourceTree, statement: cst.CSTNode) -> bool:
    called = {called_method(call) for call in source.nodes_inside(cst.Call, statement)}
    return bool(called & {*USES, "zero_grad"})


def _other_step_line(source: SourceTree, condition: cst.If) -> int:
    """The line on which the same optimizer steps outside of the condition, as for the rest of an
    epoch; 0 without one."""
    calls = source.nodes_inside(cst.Call, condition)
    inside = {call for call in calls if called_method(call) == "step"}
    steppers = {source.code_of(call.func) for call in inside}
    others = (call for call in source.all_nodes(cst.Call) if call not in inside)
    return next((source.line_of(c) for c in others if source.code_of(c.func) in steppers), 0)


def _condition_text(source: SourceTree, condition: cst.If) -> str:
    code = source.code_of(condition.test)
    plain = not isinstance(condition.test, cst.IfExp | cst.Lambda) or condition.test.lpar
    return code if plain else f"({code})"


def _is_stable(source: SourceTree, test: cst.BaseExpression, until: list[Any]) -> bool:
    """Whether a condition has the same value before some statements: it calls nothing but ``len``,
    its names are set neither there nor by functions called there, and objects whose length or
    parts it reads are not used there."""
    calls = [test] if isinstance(test, cst.Call) else []
    calls += source.nodes_inside(cst.Call, test)
    if any(source.code_of(call.func) != "len" for call in calls):
        return False
    if isinstance(test, cst.Await) or source.nodes_inside(cst.NamedExpr, test):
        return False
    asked = {source.code_of(test), *mentioned_names(source, test)}
    inner = {source.code_of(arg.value) for call in calls for arg in call.args}
    inner |= {source.code_of(each.value) for each in source.nodes_inside(cst.Subscript, test)}
    touched = {name for each in until for name in mentioned_names(source, each)}
    written = {name for each in until for name in _names_set(source, each)}
    return not (asked & (written | names_set_by_calls(source, test)) or inner & touched)


def _names_set(source: SourceTree, statement: cst.CSTNode) -> set[str]:
    """Names that a statement sets, and the objects that they are parts of."""
    names = bound_names(source, statement)
    return names | {name for text in names for name in re.findall(r"[^\W\d]\w*", text)}
