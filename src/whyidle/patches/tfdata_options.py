"""Options of pipelines of tf.data, written behind the call that the finding names."""

from __future__ import annotations

from typing import Any

import libcst as cst

from whyidle.model.knobs import as_python
from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._source_tree import SourceTree, parse_expression, source_of

OPTION = "threading.private_threadpool_size"
STAGES = frozenset({"map", "interleave"})
NAME = "options"
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


@source_form("tfdata.pool")
def tfdata_options(text: str, change: KnobChange) -> Rewrite:
    """An assignment to the option gets the new value. Otherwise the pipeline with the ``map`` or
    ``interleave`` at a line that the finding names gets options, where it is the whole value of an
    assignment or of a ``return``; any other place is left."""
    if "tensorflow" not in text:
        return Rewrite(text)
    source, edits = source_of(text), FileEdits()
    for assign in source.all_nodes(cst.Assign):
        if source.code_of(assign.targets[0].target).endswith(f".{OPTION}"):
            edits.replace_expression(assign.value, as_python(change.value))
    module = _imported_name(source)
    if edits.done or module is None:
        return edits.rewrite_file(source)
    for call in source.all_nodes(cst.Call):
        stage = isinstance(call.func, cst.Attribute) and call.func.attr.value in STAGES
        if stage and set(change.lines) & set(source.lines_of(call)):
            _add_options(source, edits, call, module, as_python(change.value))
    return edits.rewrite_file(source)


def _imported_name(source: SourceTree) -> str | None:
    """How the file calls TensorFlow."""
    names = source.all_nodes(cst.Name)
    return next((n.value for n in names if source.qualified_names(n) == {"tensorflow"}), None)


def _add_options(
    source: SourceTree, edits: FileEdits, call: cst.Call, module: str, threads: str
) -> None:
    """Give the pipeline that a call belongs to options of its own."""
    chain: cst.CSTNode = call
    while isinstance(above := source.parent_of(chain), cst.Attribute | cst.Call):
        chain = above
    statement = source.enclosing_node(chain, cst.SimpleStatementLine)
    holder = source.parent_of(chain)
    line = source.line_of(call)
    if "with_options" in source.code_of(chain):
        edits.why.append(f"line {line} sets its own options")
    elif not isinstance(holder, cst.Assign | cst.Return) or not isinstance(
        statement, cst.SimpleStatementLine
    ):
        edits.why.append(f"line {line} is a part of a longer expression")
    elif any(name.value == NAME for name in source.all_nodes(cst.Name)):
        edits.why.append(f"the name `{NAME}` is taken")
    elif statement not in edits.changes:
        lines = (f"{NAME} = {module}.data.Options()", f"{NAME}.{OPTION} = {threads}")
        added = [cst.parse_statement(each) for each in lines]
        behind = parse_expression(f"x.with_options({NAME})")
        edits.changes[chain] = lambda new: _call_on(behind, new)
        edits.changes[statement] = lambda new: _precede(new, added)
        edits.done = True


def _call_on(call: Any, value: cst.BaseExpression) -> cst.BaseExpression:
    wrapped: cst.BaseExpression = call.with_changes(func=call.func.with_changes(value=value))
    return wrapped


def _precede(statement: Any, added: list[Statement]) -> Any:
    """A statement with others before it, below the comments that stand above it."""
    first = added[0].with_changes(leading_lines=statement.leading_lines)
    return cst.FlattenSentinel([first, *added[1:], statement.with_changes(leading_lines=())])
