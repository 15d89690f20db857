"""Keywords of ``DistributedDataParallel(...)``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, meant
from whyidle.patches._setter import Edits, Setter
from whyidle.patches._source import Source, source_of
from whyidle.patches._statements import after
from whyidle.patches._training import method
from whyidle.patches._wrapped import DDP

KEYWORDS = {
    "ddp.bucket_cap_mb": Keyword("bucket_cap_mb", None),
    "ddp.find_unused_parameters": Keyword("find_unused_parameters", False),
    "ddp.gradient_as_bucket_view": Keyword("gradient_as_bucket_view", False),
    "ddp.static_graph": Keyword("static_graph", False),
}


HOOKS = "torch.distributed.algorithms.ddp_comm_hooks"


@source_form(*KEYWORDS, "ddp.comm_hook")
def distributed(text: str, change: Change) -> Rewrite:
    """Where the model is wrapped; a hook on the line below, where that gives the model a name."""
    if "DistributedDataParallel" not in text:
        return Rewrite(text)
    source = source_of(text)
    if change.knob == "ddp.comm_hook":
        return _hook(source, change)
    keyword = KEYWORDS[change.knob]
    calls = meant(source, source.calls(DDP), keyword, change)
    setter = Setter(source, keyword, change)
    return setter.set(setter.tried(calls))


def _hook(source: Source, change: Change) -> Rewrite:
    edits = Edits()
    hook = f"{change.value}_hook"
    named = any(name.value == hook for name in source.every(cst.Name))
    other = any(method(call) == "register_comm_hook" for call in source.every(cst.Call))
    for call in source.calls(DDP):
        assigned = source.parent(call)
        statement = source.parent(assigned) if isinstance(assigned, cst.Assign) else None
        if named:
            edits.done = True
        elif other:
            edits.why.append(f"line {source.line(call)} wraps a model that has another hook")
        elif isinstance(assigned, cst.Assign) and isinstance(statement, cst.SimpleStatementLine):
            model = source.code(assigned.targets[0].target)
            imported = f"from {HOOKS} import default_hooks"
            registered = f"{model}.register_comm_hook(None, default_hooks.{hook})"
            edits.changes[statement] = after(source, imported, registered)
            edits.done = True
        else:
            edits.why.append(f"line {source.line(call)} wraps a model without giving it a name")
    return edits.rewrite(source)
