"""Forward pass and loss under ``torch.autocast``."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, argument_value
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._statement_edits import all_within, imported_name
from whyidle.patches._training_loops import called_method, trained_models

DTYPE = "bfloat16"
"""the type that needs no gradient scaler"""
AUTOCAST = (
    "torch.autocast",
    "torch.amp.autocast",
    "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast",
    "torch.cuda.amp.autocast_mode.autocast",
)
REFUSED = ("torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy")
"""functions that PyTorch refuses under autocast, except on CPUs"""
WIDER = {"float", "double", "int", "long", "bool", "argmax", "argmin", "to", "type", "astype"}
"""methods whose result has another type"""
MARKS = ("torch.profiler.record_function", "torch.cuda.nvtx.range")
"""contexts without effect on the numbers; another one may be a disabled autocast"""


@source_form("autocast.dtype", "autocast.grad_scaler")
def autocast(text: str, change: KnobChange) -> Rewrite:
    """Wraps the statements from the model's call to the loss, where they are in one block with the
    file's only backward pass. A file with an autocast for training is left."""
    if change.knob == "autocast.grad_scaler":
        return Rewrite(text, done=not change.value)
    if change.value != DTYPE or "backward" not in text:
        return Rewrite(text)
    source = source_of(text)
    existing = [call for call in source.calls_of(AUTOCAST) if _is_for_training(source, call)]
    return _judge_existing(source, existing) if existing else _wrap_forward(source, change)


def _is_for_training(source: SourceTree, call: cst.Call) -> bool:
    scope = source.enclosing_node(call, cst.For, cst.While, cst.FunctionDef) or source.module
    return any(called_method(inner) == "backward" for inner in source.nodes_inside(cst.Call, scope))


def _judge_existing(source: SourceTree, calls: list[cst.Call]) -> Rewrite:
    edits = FileEdits()
    for call in calls:
        dtype = argument_value(call, Keyword("dtype", None, position=1))
        wanted = dtype is not None and source.qualified_names(dtype) == {f"torch.{DTYPE}"}
        if wanted and argument_value(call, Keyword("enabled", True, position=2)) is None:
            edits.done = True
        else:
            edits.why.append(f"line {source.line_of(call)} has {source.code_of(call)} already")
    return edits.rewrite_file(source)


def _wrap_forward(source: SourceTree, change: KnobChange) -> Rewrite:
    edits = FileEdits()
    backward = [call for call in source.all_nodes(cst.Call) if called_method(call) == "backward"]
    if not backward or any(_has_argument(call) for call in backward):
        return edits.rewrite_file(source)
    place = f"line {source.line_of(backward[0])}"
    torch = imported_name(source)
    span = _forward_span(source, backward[0])
    if len(backward) > 1:
        edits.why.append(f"{place} is one of several backward passes")
    elif torch is None:
        edits.why.append(f"{place} is in a file without `import torch`")
    elif span is None:
        edits.why.append(f"{place}: where the forward pass begins is not clear")
    elif reason := _explain_unsuitable(source, change.device) or _explain_array_use(source, span):
        edits.why.append(reason)
    if edits.why or span is None:
        return edits.rewrite_file(source)
    block, first, last = span
    head = f'with {torch}.autocast("{change.device}", dtype={torch}.{change.value}):'
    edits.changes[block] = all_within(source, head, first, last)
    edits.done = True
    return edits.rewrite_file(source)


def _explain_unsuitable(source: SourceTree, device: str) -> str:
    """Why a file must not use autocast; empty without a known reason."""
    calls = source.calls_of(REFUSED) if device != "cpu" else []
    if not calls:
        return ""
    name = source.code_of(calls[0].func)
    return f"line {source.line_of(calls[0])} has {name}, which must not run under autocast"


def _has_argument(call: cst.Call) -> bool:
    """As in ``accelerator.backward(loss)``, whose own precision holds for the forward pass."""
    return any(arg.keyword is None and not arg.star for arg in call.args)


Span = tuple["cst.IndentedBlock | cst.Module", int, int]


def _forward_span(source: SourceTree, backward: cst.Call) -> Span | None:
    """The block with the backward pass, and the numbers of its statements with the model's call and
    the loss; None where they are no statements of one block."""
    assert isinstance(backward.func, cst.Attribute)
    loss = backward.func.value
    line = source.enclosing_node(backward, cst.SimpleStatementLine)
    block = source.parent_of(line) if line is not None else None
    if not isinstance(loss, cst.Name) or not isinstance(block, cst.IndentedBlock | cst.Module):
        return None
    statements: list[cst.CSTNode | None] = list(block.body)
    above = [each for each in statements[: statements.index(line)] if each is not None]
    last = next(
        (i for i in reversed(range(len(above))) if loss.value in _names_set(above[i])), None
    )
    names = {each.name for each in trained_models(source)}
    runs = [i for i, statement in enumerate(above) if _calls_model(source, statement, names)]
    if last is None or not runs or runs[0] > last:
        return None
    return None if _has_excluded(source, above[runs[0] : last + 1]) else (block, runs[0], last)


def _explain_array_use(source: SourceTree, span: Span) -> str:
    """Why the model's results must keep their type: NumPy has no such type."""
    block, first, last = span
    names = {each.name for each in trained_models(source)}
    results = {
        name
        for statement in block.body[first:last]
        if _calls_model(source, statement, names)
        for name in _names_set(statement)
    }
    for call in source.nodes_inside(cst.Call, block):
        if called_method(call) != "numpy" or source.nodes_inside(cst.Comparison, call):
            continue
        called = {called_method(each) for each in source.nodes_inside(cst.Call, call)}
        used = {name.value for name in source.nodes_inside(cst.Name, call)}
        if results & used and not called & WIDER:
            return f"line {source.line_of(call)} creates a NumPy array, which cannot be {DTYPE}"
    return ""


def _names_set(statement: cst.CSTNode) -> set[str]:
    if not isinstance(statement, cst.SimpleStatementLine):
        return set()
    targets = [
        t.target for each in statement.body if isinstance(each, cst.Assign) for t in each.targets
    ]
    parts = [e.value for t in targets if isinstance(t, cst.Tuple) for e in t.elements]
    return {t.value for t in (*targets, *parts) if isinstance(t, cst.Name)}


def _calls_model(source: SourceTree, statement: cst.CSTNode, names: set[str]) -> bool:
    for call in source.nodes_inside(cst.Call, statement):
        passed = not called_method(call) and names & {source.code_of(a.value) for a in call.args}
        if passed or source.code_of(call.func) in names:
            return True
    return False


def _has_excluded(source: SourceTree, statements: Sequence[cst.CSTNode]) -> bool:
    called = {called_method(c) for each in statements for c in source.nodes_inside(cst.Call, each)}
    yields = any(source.nodes_inside(cst.Yield, each) for each in statements)
    marks = source.calls_of(MARKS)
    under = [item.item for each in statements for item in source.nodes_inside(cst.WithItem, each)]
    return (
        yields
        or any(context not in marks for context in under)
        or bool(called & {"backward", "step", "unscale_"})
    )
