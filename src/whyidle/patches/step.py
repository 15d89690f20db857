"""Decorators that compile the function of a training step: ``tf.function`` and ``jax.jit``."""

from __future__ import annotations

from functools import partial

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._source_tree import SourceTree, parse_expression, source_of
from whyidle.patches._statement_edits import imported_name

COMPILERS = {"tensorflow": "function", "jax": "jit"}
TRANSFORMS = {"jax.grad", "jax.value_and_grad"}
LOOPS = (cst.For, cst.While)


@source_form("step.compile")
def step(text: str, change: KnobChange) -> Rewrite:
    """The function that a trial compiled, else the only one that takes gradients outside a loop; it
    must have no decorator."""
    edits = FileEdits()
    if not change.value or not any(name in text for name in COMPILERS):
        return Rewrite(text)
    source = source_of(text)
    functions = [node for node in source.module.body if isinstance(node, cst.FunctionDef)]
    if change.made is None:
        meant = [node for node in functions if _takes_gradients(source, node)]
    else:
        tried = {line for line, why in change.made.items() if not why}
        meant = [node for node in functions if tried & set(source.lines_of(node))]
    names = {module: imported_name(source, module) for module in COMPILERS}
    prefixes = [f"{name}.{COMPILERS[module]}" for module, name in names.items() if name]
    for function in meant:
        own = [source.code_of(each.decorator) for each in function.decorators]
        if any(word.startswith(tuple(prefixes)) for word in own):
            edits.done = True
        elif own or len(meant) > 1 or len(prefixes) != 1:
            why = "takes gradients; which function to compile, and how, is not certain"
            edits.why.append(f"line {source.line_of(function)} {why}")
        else:
            edits.changes[function] = partial(_decorate, prefixes[0])
            edits.done = True
    return edits.rewrite_file(source)


def _decorate(code: str, function: cst.FunctionDef) -> cst.FunctionDef:
    return function.with_changes(decorators=[cst.Decorator(parse_expression(code))])


def _takes_gradients(source: SourceTree, function: cst.FunctionDef) -> bool:
    """Whether a function itself takes gradients, and not in a loop."""
    calls = source.nodes_inside(cst.Call, function)
    taking = [
        call
        for call in calls
        if (isinstance(call.func, cst.Attribute) and call.func.attr.value == "gradient")
        or (isinstance(call.func, cst.Call) and source.qualified_names(call.func.func) & TRANSFORMS)
    ]
    return any(source.enclosing_node(call, cst.FunctionDef, *LOOPS) is function for call in taking)
