"""Compiles a model before its optimizer is created."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword
from whyidle.patches._keyword_setter import FileEdits, KeywordSetter
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._statement_edits import imported_name, insert_before
from whyidle.patches._training_loops import called_method, single_model, trained_models

COMPILE = ("torch.compile",)
DYNAMIC = "model.compile_dynamic"


@source_form("model.compile", DYNAMIC)
def model(text: str, change: KnobChange) -> Rewrite:
    """Lines before the file's only optimizer. ``model.compile()`` compiles in place, so that names
    in checkpoints stay the same. ``dynamic`` is set where the model is compiled."""
    if not any(word in text for word in ("parameters(", "compile")):
        return Rewrite(text)
    source = source_of(text)
    if change.knob == DYNAMIC:
        setter = KeywordSetter(source, Keyword("dynamic", None), change)
        return setter.set_keyword([*source.calls_of(COMPILE), *_compile_calls(source)])
    if not change.value:
        return Rewrite(text)
    found, edits = single_model(source), FileEdits()
    edits.done = _already_compiled(source, edits)
    if edits.done or edits.why:
        return edits.rewrite_file(source)
    if found is not None:
        lines = (*_fallback_lines(source), f"{found.name}.compile()")
        edits.changes[found.statement] = insert_before(source, *lines)
        edits.done = True
    elif others := trained_models(source):
        names = ", ".join(dict.fromkeys(each.name for each in others))
        edits.why.append(f"line {source.line_of(others[0].statement)} trains {names}")
    return edits.rewrite_file(source)


def _fallback_lines(source: SourceTree) -> list[str]:
    """Code that cannot be compiled runs uncompiled, as in the trial."""
    if "suppress_errors" in source.text:
        return []
    torch = imported_name(source)
    dynamo = f"{torch}._dynamo" if torch else "_dynamo"
    line = f"{dynamo}.config.suppress_errors = True  # code that cannot be compiled runs as it is"
    return [line] if torch else ["from torch import _dynamo", line]


def _already_compiled(source: SourceTree, edits: FileEdits) -> bool:
    """Whether a line compiles the model. A conditional one did not, or there would be no gain;
    compiled functions do not count."""
    own = {function.name.value for function in source.all_nodes(cst.FunctionDef)}
    calls = [
        call
        for call in (*source.calls_of(COMPILE), *_compile_calls(source))
        if not isinstance(source.parent_of(call), cst.Decorator)
        and not own & {source.code_of(arg.value) for arg in call.args[:1]}
    ]
    names = {each.name for each in trained_models(source)}
    others = [call for call in calls if names and not _concerns_model(source, call, names)]
    for call in others:
        edits.why.append(f"line {source.line_of(call)} compiles what may be a part of the model")
    conditions = {call: _call_condition(source, call) for call in calls if call not in others}
    for call, condition in conditions.items():
        if condition:
            edits.why.append(f"line {source.line_of(call)} compiles it where `{condition}`")
    parts = [] if calls else [each for each in trained_models(source) if each.name == "self"]
    if parts and not any(
        source.code_of(call.func) == "self" for call in source.all_nodes(cst.Call)
    ):
        line = source.line_of(parts[0].statement)
        edits.why.append(f"line {line} trains self, whose parts are called one by one")
    return "" in conditions.values()


def _concerns_model(source: SourceTree, call: cst.Call, names: set[str]) -> bool:
    """Whether a call takes one of these models, or assigns to its name."""
    statement = source.enclosing_node(call, cst.SimpleStatementLine)
    parts = source.nodes_inside(cst.AssignTarget, statement) if statement is not None else []
    targets = {source.code_of(each.target) for each in parts}
    passed = {source.code_of(arg.value) for arg in call.args[:1]}
    owner = {source.code_of(call.func.value)} if isinstance(call.func, cst.Attribute) else set()
    return bool(names & (targets | passed | owner))


def _call_condition(source: SourceTree, call: cst.Call) -> str:
    """The condition of a call, unless it also decides the training."""
    found = source.enclosing_node(call, cst.If, cst.IfExp, cst.FunctionDef)
    if not isinstance(found, cst.If | cst.IfExp):
        return ""
    trained = [each.statement for each in trained_models(source)]
    inside = source.nodes_inside(cst.SimpleStatementLine, found)
    return "" if any(each in inside for each in trained) else source.code_of(found.test)


def _compile_calls(source: SourceTree) -> list[cst.Call]:
    names = {each.name for each in trained_models(source)}
    return [
        call
        for call in source.all_nodes(cst.Call)
        if called_method(call) == "compile"
        and isinstance(call.func, cst.Attribute)
        and source.code_of(call.func.value) in names
    ]
