"""Whether cuDNN searches for the fastest convolutions: an assignment."""

from __future__ import annotations

import libcst as cst

from whyidle.model.knobs import as_python
from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword
from whyidle.patches._setter import Setter
from whyidle.patches._source import Source, source_of
from whyidle.patches._statements import after_imports

NAME = "torch.backends.cudnn.benchmark"
DETERMINISTIC = "torch.backends.cudnn.deterministic"
OTHERS = ("torch.backends.cudnn.set_flags", "torch.backends.cudnn.flags")


@source_form("torch.cudnn_benchmark")
def cudnn(text: str, change: Change) -> Rewrite:
    """The assignments that are there; where there is none, a line behind the script's imports for
    a search that is to begin."""
    if not change.insert and "cudnn" not in text:
        return Rewrite(text)
    source = source_of(text)
    setter = Setter(source, Keyword("benchmark", False), change)
    for each in source.every(cst.Assign):
        targets = [source.set_by(target.target) for target in each.targets]
        if not any(NAME in names for names in targets):
            continue
        if targets != [{NAME}]:
            setter.leave(each, "also sets something else")
        elif _for_same_results(source, each):
            setter.leave(each, "sets it where the same results are asked for each time")
        else:
            setter.change_value(each, each.value)
    for call in source.calls(OTHERS):
        setter.leave(call, "also sets it")
    edits = setter.edits
    if change.insert and change.value and not edits.done and not edits.why:
        found = after_imports(source, f"{{torch}}.backends.cudnn.benchmark = {as_python(True)}")
        if found is not None:
            edits.changes[found[0]] = found[1]
            edits.done = True
    return edits.rewrite(source)


def _for_same_results(source: Source, assign: cst.Assign) -> bool:
    """Whether it is one branch of several, and that one asks for deterministic algorithms."""
    block = source.around(assign, cst.IndentedBlock)
    if block is None or not isinstance(source.parent(block), cst.If | cst.Else):
        return False
    return any(
        {DETERMINISTIC} == source.set_by(target.target) and source.literal(each.value) is True
        for each in source.inside(cst.Assign, block)
        for target in each.targets
    )
