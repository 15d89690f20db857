"""Evaluation without gradients: ``torch.no_grad()`` around it, as in a trial."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._source_tree import SourceTree, parse_expression, source_of
from whyidle.patches._statement_edits import imported_name, put_under
from whyidle.patches._training_loops import called_method, contains_training, training_loops

NAMES = re.compile(r"(^|_)(eval(uat(e|ion))?|val(id(ate|ation)?)?|test|infer(ence)?|predict)(_|$)")
WITHOUT = {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"}
ATTENTION = re.compile(r"\bnn\.Transformer\b|\bTransformer(En|De)coder|\bMultiheadAttention\b")
"""PyTorch's attention layers, which take a faster path without gradients; a trial disables that
path"""
FASTER = (
    "evaluates with PyTorch's attention, which takes a faster path under no_grad: that path rounds "
    "differently, and returns zeros at padded positions; "
    "`torch.backends.mha.set_fastpath_enabled(False)` keeps the numbers"
)


@source_form("evaluation.gradients")
def evaluation(text: str, change: KnobChange) -> Rewrite:
    """The function or loop at the finding's lines, if it trains nothing; without lines the only
    function that calls ``eval()`` and loops. Never ``inference_mode``: state that a model keeps
    from an evaluation could not be trained any more. A file with PyTorch's attention layers is
    left, because their numbers change without gradients."""
    if change.value is not False or ("eval(" not in text and not change.lines):
        return Rewrite(text)
    source, edits = source_of(text), FileEdits()
    torch = imported_name(source)
    for found in _find_evaluations(source, change.lines):
        if _guarded_already(source, found):
            edits.done = True
        elif isinstance(found, cst.FunctionDef) and found.asynchronous is not None:
            line = source.line_of(found)
            edits.why.append(f"line {line} is a coroutine, whose body no decorator reaches")
        elif ATTENTION.search(text):
            edits.why.append(f"line {source.line_of(found)} {FASTER}")
        elif torch is None:
            edits.why.append(
                f"line {source.line_of(found)} evaluates, in a file without `import torch`"
            )
        else:
            edits.changes[found] = _wrap_no_grad(source, found, f"{torch}.no_grad()")
            edits.done = True
    return edits.rewrite_file(source)


Found = cst.FunctionDef | cst.For


def _find_evaluations(source: SourceTree, lines: tuple[int, ...]) -> list[Found]:
    if lines:
        found = [each for line in lines if (each := _evaluation_at(source, line)) is not None]
        return list(dict.fromkeys(found))
    likely = [f for f in source.all_nodes(cst.FunctionDef) if _is_evaluation(source, f)]
    return list(likely) if len(likely) == 1 else []


def _is_evaluation(source: SourceTree, function: cst.FunctionDef) -> bool:
    called = {called_method(call) for call in source.nodes_inside(cst.Call, function)}
    loops = source.nodes_inside(cst.For, function)
    return "eval" in called and bool(loops) and not contains_training(source, function)


def _evaluation_at(source: SourceTree, line: int) -> Found | None:
    """The outermost function or loop around a line that evaluates and trains nothing: a function
    that calls ``eval()`` or is named for evaluation, or a loop in a function that trains."""
    functions = [f for f in source.all_nodes(cst.FunctionDef) if line in source.lines_of(f)]
    for function in functions:
        if not contains_training(source, function) and (
            _is_evaluation(source, function) or _named_for_evaluation(source, function)
        ):
            return function
    loops = [loop for loop in source.all_nodes(cst.For) if line in source.lines_of(loop)]
    loops = [loop for loop in loops if not contains_training(source, loop)]
    inner = functions[-1] if functions else source.module
    return loops[0] if loops and contains_training(source, inner) else None


def _named_for_evaluation(source: SourceTree, function: cst.FunctionDef) -> bool:
    """Whether a function is named for evaluation and no training loop calls it, as it would call
    the loss."""
    name = function.name.value
    called = {
        source.code_of(call.func).rpartition(".")[2]
        for loop in training_loops(source)
        for call in source.nodes_inside(cst.Call, loop)
    }
    return bool(NAMES.search(name.lower())) and name not in called


def _guarded_already(source: SourceTree, found: Found) -> bool:
    nodes = [
        each.item for each in source.all_nodes(cst.WithItem) if _is_covered(source, each, found)
    ]
    if isinstance(found, cst.FunctionDef) and found.asynchronous is None:
        nodes += [each.decorator for each in found.decorators]
    functions = [node.func if isinstance(node, cst.Call) else node for node in nodes]
    names = [source.qualified_names(function) for function in functions]
    return any(len(name) == 1 and name <= WITHOUT for name in names)


def _is_covered(source: SourceTree, item: cst.WithItem, found: Found) -> bool:
    outer = source.parent_of(item)
    assert outer is not None
    inside = set(source.lines_of(outer)) <= set(source.lines_of(found))
    return inside or set(source.lines_of(found)) <= set(source.lines_of(outer))


def _wrap_no_grad(source: SourceTree, found: Found, code: str) -> Callable[[Any], Any]:
    if isinstance(found, cst.For):
        return put_under(source, f"with {code}:")
    decorator = cst.Decorator(parse_expression(code))

    def add_decorator(function: Any) -> Any:
        first = decorator.with_changes(leading_lines=[])
        return function.with_changes(decorators=[*function.decorators, first])

    return add_decorator
