"""Autocasts that a program has: which are for training, and whether they are enabled."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite
from whyidle.patches._call_layout import with_keyword
from whyidle.patches._keyword_argument import Keyword, argument_value, current_value
from whyidle.patches._keyword_dicts import double_star_values
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import NO_LITERAL, SourceTree
from whyidle.patches._statement_edits import imported_name
from whyidle.patches._training_loops import called_method
from whyidle.patches._value_origin import find_origin

AUTOCAST = ("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast")
OLDER = ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast")
REFUSED = ("torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy")
"""functions that PyTorch refuses under autocast, except on CPUs"""
DTYPE = Keyword("dtype", None, position=1)


def find_autocasts(source: SourceTree) -> list[cst.Call]:
    """Autocasts in a function or loop with a backward pass, and those that a training script
    assigns to a name. Others are for evaluation or for layers in full precision."""
    calls = source.calls_of((*AUTOCAST, *OLDER))
    return [
        call
        for call in calls
        if _is_for_training(source, call) and not _is_nested(source, call, calls)
    ]


def _is_for_training(source: SourceTree, call: cst.Call) -> bool:
    scope = source.enclosing_node(call, cst.For, cst.While, cst.FunctionDef) or source.module
    return any(called_method(inner) == "backward" for inner in source.nodes_inside(cst.Call, scope))


def _is_nested(source: SourceTree, call: cst.Call, calls: list[cst.Call]) -> bool:
    statement = source.enclosing_node(call, cst.With)
    while statement is not None:
        statement = source.enclosing_node(statement, cst.With)
        items = statement.items if isinstance(statement, cst.With) else ()
        if any(item.item in calls for item in items):
            return True
    return False


def enable_autocasts(source: SourceTree, change: KnobChange, calls: list[cst.Call]) -> Rewrite:
    """Enable autocasts that are evidently disabled, with the type of the change: another type may
    need a gradient scaler. An enabled one must have that type already."""
    on = KeywordSetter(source, Keyword("enabled", True), replace(change, value=True, was=None))
    for call in calls:
        older = source.qualified_names(call.func) <= set(OLDER)
        on.keyword = Keyword("enabled", True, position=0 if older else 2)
        value = current_value(source, call, on.keyword, change.options)
        known = double_star_values(source, call)
        dtype = argument_value(call, DTYPE) or (known.keys.get(DTYPE.name) if known else None)
        has = dtype is not None and source.qualified_names(dtype) == {f"torch.{change.value}"}
        if value is True and has:
            on.edits.done = True
        elif value is True:
            on.leave_call(call, f"has {source.code_of(call)} already")
        elif value is NO_LITERAL:
            on.set_keyword([call])  # explains what decides instead
        elif reason := explain_unsuitable(source, change.device):
            on.edits.why.append(reason)
        elif torch := imported_name(source):
            _enable_autocast(source, on, call, dtype, f"{torch}.{change.value}")
        else:
            on.leave_call(call, "is in a file without `import torch`")
    return on.edits.rewrite_file(source)


def _enable_autocast(
    source: SourceTree,
    on: KeywordSetter,
    call: cst.Call,
    dtype: cst.BaseExpression | None,
    code: str,
) -> None:
    """A constant with other uses, such as a gradient scaler, stays as it is."""
    value = argument_value(call, on.keyword)
    origin = find_origin(source, value) if value is not None else None
    if value is not None and origin is not None and origin.others:
        on.edits.replace_expression(value, "True")
    else:
        on.set_keyword([call])
    if dtype is None:
        on.edits.changes[call] = lambda new: with_keyword(new, DTYPE.name, code)
    else:
        on.edits.replace_expression(dtype, code)


def explain_unsuitable(source: SourceTree, device: str) -> str:
    """Why a file must not use autocast; empty without a known reason."""
    calls = source.calls_of(REFUSED) if device != "cpu" else []
    if not calls:
        return ""
    name = source.code_of(calls[0].func)
    return f"line {source.line_of(calls[0])} has {name}, which must not run under autocast"
