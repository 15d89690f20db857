"""Forward pass and loss under ``torch.autocast``."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._existing_autocasts import explain_unsuitable, find_autocasts, turned_on
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._statement_edits import all_within, torch_name
from whyidle.patches._training_loops import called_method, trained_models

DTYPE = "bfloat16"
"""the one that needs no gradient scaler around the rest of the step"""
WIDER = {"float", "double", "int", "long", "bool", "argmax", "argmin", "to", "type", "astype"}
"""methods whose result is of another type"""
MARKS = ("torch.profiler.record_function", "torch.cuda.nvtx.range")
"""contexts that change nothing; another one may be an autocast, which is off"""


@source_form("autocast.dtype", "autocast.grad_scaler")
def autocast(text: str, change: KnobChange) -> Rewrite:
    """The statements from the model's call to the loss, where they stand in one block with the one
    backward pass of the file. An autocast that is there for training and off is turned on."""
    if change.knob == "autocast.grad_scaler":
        return Rewrite(text, done=not change.value)
    if change.value != DTYPE or "backward" not in text:
        return Rewrite(text)
    source = source_of(text)
    there = find_autocasts(source)
    return turned_on(source, change, there) if there else _wrap_forward(source, change)


def _wrap_forward(source: SourceTree, change: KnobChange) -> Rewrite:
    edits = FileEdits()
    backward = [call for call in source.all_nodes(cst.Call) if called_method(call) == "backward"]
    if not backward or any(_of_a_framework(call) for call in backward):
        return edits.rewrite_file(source)
    place = f"line {source.line_of(backward[0])}"
    torch = torch_name(source)
    span = _forward_span(source, backward[0])
    if len(backward) > 1:
        edits.why.append(f"{place} is one of several backward passes")
    elif torch is None:
        edits.why.append(f"{place} is in a file without `import torch`")
    elif span is None:
        edits.why.append(f"{place}: where the forward pass begins is not plain to see")
    elif reason := explain_unsuitable(source, change.device) or _explain_array_use(source, span):
        edits.why.append(reason)
    if edits.why or span is None:
        return edits.rewrite_file(source)
    block, first, last = span
    head = f'with {torch}.autocast("{change.device}", dtype={torch}.{change.value}):'
    edits.changes[block] = all_within(source, head, first, last)
    edits.done = True
    return edits.rewrite_file(source)


def _of_a_framework(call: cst.Call) -> bool:
    """``accelerator.backward(loss)``: what it is told of precision holds for the forward pass."""
    return any(arg.keyword is None and not arg.star for arg in call.args)


Span = tuple["cst.IndentedBlock | cst.Module", int, int]


def _forward_span(source: SourceTree, backward: cst.Call) -> Span | None:
    """The block with the backward pass, and its first and last statement from the model's call to
    the loss; None where they are not plain statements of one block."""
    assert isinstance(backward.func, cst.Attribute)
    loss = backward.func.value
    line = source.enclosing_node(backward, cst.SimpleStatementLine)
    block = source.parent_of(line) if line is not None else None
    if not isinstance(loss, cst.Name) or not isinstance(block, cst.IndentedBlock | cst.Module):
        return None
    statements: list[cst.CSTNode | None] = list(block.body)
    above = [each for each in statements[: statements.index(line)] if each is not None]
    last = next((i for i in reversed(range(len(above))) if _sets_name(above[i], loss.value)), None)
    names = {each.name for each in trained_models(source)}
    runs = [i for i, statement in enumerate(above) if _calls_model(source, statement, names)]
    if last is None or not runs or runs[0] > last:
        return None
    return None if _has_excluded(source, above[runs[0] : last + 1]) else (block, runs[0], last)


def _explain_array_use(source: SourceTree, span: Span) -> str:
    """Why what the model returns must stay as it is: NumPy has no such numbers."""
    block, first, last = span
    names = {each.name for each in trained_models(source)}
    made = [each for each in block.body[first:last] if _calls_model(source, each, names)]
    found = {name for each in made for name in _names_set(each)}
    for call in source.nodes_inside(cst.Call, block):
        if called_method(call) != "numpy" or source.nodes_inside(cst.Comparison, call):
            continue
        called = {called_method(each) for each in source.nodes_inside(cst.Call, call)}
        used = {name.value for name in source.nodes_inside(cst.Name, call)}
        if found & used and not called & WIDER:
            return f"line {source.line_of(call)} makes an array of NumPy, which has no {DTYPE}"
    return ""


def _sets_name(statement: cst.CSTNode, name: str) -> bool:
    return name in _names_set(statement)


def _names_set(statement: cst.CSTNode) -> set[str]:
    """The names that a statement sets."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return set()
    targets = [
        t.target for each in statement.body if isinstance(each, cst.Assign) for t in each.targets
    ]
    parts = [e.value for t in targets if isinstance(t, cst.Tuple) for e in t.elements]
    return {t.value for t in (*targets, *parts) if isinstance(t, cst.Name)}


def _calls_model(source: SourceTree, statement: cst.CSTNode, names: set[str]) -> bool:
    """Whether a statement calls the model, or hands it to a function of the file's own."""
    return any(
        source.code_of(call.func) in names
        or (
            called_method(call) == ""
            and any(source.code_of(arg.value) in names for arg in call.args)
        )
        for call in source.nodes_inside(cst.Call, statement)
    )


def _has_excluded(source: SourceTree, statements: Sequence[cst.CSTNode]) -> bool:
    """Whether something between must not run under autocast."""
    called = {called_method(c) for each in statements for c in source.nodes_inside(cst.Call, each)}
    yields = any(source.nodes_inside(cst.Yield, each) for each in statements)
    marks = source.calls_of(MARKS)
    under = [item.item for each in statements for item in source.nodes_inside(cst.WithItem, each)]
    return (
        yields
        or any(context not in marks for context in under)
        or bool(called & {"backward", "step", "unscale_"})
    )
