"""Whether cuDNN searches for the fastest convolutions: an assignment."""

from __future__ import annotations

import libcst as cst

from whyidle.model.knobs import as_python
from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword
from whyidle.patches._setter import Setter
from whyidle.patches._source import source_of
from whyidle.patches._statements import after_imports

NAME = "torch.backends.cudnn.benchmark"
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
