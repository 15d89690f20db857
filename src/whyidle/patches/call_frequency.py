"""Calling a function every n-th step instead of in every step of a training loop."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._bindings import bound_names
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._statement_edits import put_under
from whyidle.patches._training_loops import has_step

COLLECT = ("gc.collect",)


@source_form("gc.collect_interval_steps")
def call_frequency(text: str, change: KnobChange) -> Rewrite:
    """A separate statement in a training loop that counts its steps with ``enumerate``."""
    if "collect" not in text:
        return Rewrite(text)
    source, edits = source_of(text), FileEdits()
    for call in source.calls_of(COLLECT):
        loop = source.enclosing_node(call, cst.For, cst.While, cst.FunctionDef)
        statement = source.parent_of(source.parent_of(call) or call)
        if not isinstance(loop, cst.For | cst.While) or not has_step(source, loop):
            continue
        condition = source.enclosing_node(call, cst.If, cst.For, cst.While)
        counter = _step_counter(source, loop)
        if isinstance(condition, cst.If):
            _make_conditional(source, edits, condition, call, change)
        elif counter and statement is not None and _is_own_statement(statement, call):
            edits.changes[statement] = put_under(source, f"if {counter} % {change.value} == 0:")
            edits.done = True
        else:
            edits.why.append(
                f"line {source.line_of(call)}, in a loop that does not count its steps"
            )
    return edits.rewrite_file(source)


def _make_conditional(
    source: SourceTree, edits: FileEdits, condition: cst.If, call: cst.Call, change: KnobChange
) -> None:
    test = source.code_of(condition.test)
    if test.endswith(f" % {change.value} == 0"):
        edits.done = True
    else:
        edits.why.append(f"line {source.line_of(call)} is called where `{test}`")


def _is_own_statement(statement: cst.CSTNode, call: cst.Call) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    only = statement.body[0]
    return isinstance(only, cst.Expr) and only.value is call


def _step_counter(source: SourceTree, loop: cst.For | cst.While) -> str:
    if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call):
        return ""
    target = loop.target
    if source.code_of(loop.iter.func) != "enumerate" or not isinstance(target, cst.Tuple):
        return ""
    name = source.code_of(target.elements[0].value)
    return "" if name in bound_names(source, loop.body) else name
