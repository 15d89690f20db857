"""cuDNN's search for the fastest convolutions: an assignment."""

from __future__ import annotations

import libcst as cst

from whyidle.model.knobs import as_python
from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._statement_edits import after_imports

NAME = "torch.backends.cudnn.benchmark"
DETERMINISTIC = "torch.backends.cudnn.deterministic"
OTHERS = ("torch.backends.cudnn.set_flags", "torch.backends.cudnn.flags")


@source_form("torch.cudnn_benchmark")
def cudnn(text: str, change: KnobChange) -> Rewrite:
    """Changes existing assignments; without one, inserts a line after the script's imports to turn
    the search on."""
    if not change.insert and "cudnn" not in text:
        return Rewrite(text)
    source = source_of(text)
    setter = KeywordSetter(source, Keyword("benchmark", False), change)
    for each in source.all_nodes(cst.Assign):
        targets = [source.set_by(target.target) for target in each.targets]
        if not any(NAME in names for names in targets):
            continue
        if targets != [{NAME}]:
            setter.leave_call(each, "also sets something else")
        elif _for_same_results(source, each):
            setter.leave_call(each, "sets it together with deterministic algorithms")
        else:
            setter.change_value(each, each.value)
    for call in source.calls_of(OTHERS):
        setter.leave_call(call, "also sets it")
    edits = setter.edits
    if change.insert and change.value and not edits.done and not edits.why:
        found = after_imports(source, f"{{torch}}.backends.cudnn.benchmark = {as_python(True)}")
        if found is not None:
            edits.changes[found[0]] = found[1]
            edits.done = True
    return edits.rewrite_file(source)


def _for_same_results(source: SourceTree, assign: cst.Assign) -> bool:
    """Whether its branch also requests deterministic algorithms."""
    block = source.enclosing_node(assign, cst.IndentedBlock)
    if block is None or not isinstance(source.parent_of(block), cst.If | cst.Else):
        return False
    return any(
        {DETERMINISTIC} == source.set_by(target.target) and source.literal_value(each.value) is True
        for each in source.nodes_inside(cst.Assign, block)
        for target in each.targets
    )
