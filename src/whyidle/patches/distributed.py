"""Keywords of ``DistributedDataParallel(...)`` and ``fully_shard(...)``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._ddp_models import DDP
from whyidle.patches._keyword_argument import Keyword, matching_calls
from whyidle.patches._keyword_setter import FileEdits, KeywordSetter
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._statement_edits import insert_after
from whyidle.patches._training_loops import called_method

KEYWORDS = {
    "ddp.bucket_cap_mb": Keyword("bucket_cap_mb", None),
    "ddp.find_unused_parameters": Keyword("find_unused_parameters", False),
    "ddp.gradient_as_bucket_view": Keyword("gradient_as_bucket_view", False),
    "ddp.static_graph": Keyword("static_graph", False),
    "fsdp.reshard_after_forward": Keyword("reshard_after_forward", None),
}
SHARD = ("torch.distributed.fsdp.fully_shard",)
HOOKS = "torch.distributed.algorithms.ddp_comm_hooks"
LOW_RANK = "powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10)"
"""as ``probe/knobs/ddp.py`` registers it"""


@source_form(*KEYWORDS, "ddp.comm_hook")
def distributed(text: str, change: KnobChange) -> Rewrite:
    """Changes the call that wraps the model; a hook goes on the line below, if the model gets a
    name there."""
    sharding = change.knob.startswith("fsdp.")
    if ("fully_shard" if sharding else "DistributedDataParallel") not in text:
        return Rewrite(text)
    source = source_of(text)
    if change.knob == "ddp.comm_hook":
        return _hook(source, change)
    keyword = KEYWORDS[change.knob]
    calls = matching_calls(source, source.calls_of(SHARD if sharding else DDP), keyword, change)
    setter = KeywordSetter(source, keyword, change)
    return setter.set_keyword(setter.tried_calls(calls))


def _hook(source: SourceTree, change: KnobChange) -> Rewrite:
    edits = FileEdits()
    hook = f"{change.value}_hook"
    module, state = "default_hooks", "None"
    if change.value == "powersgd":
        hook, module, state = "powerSGD_hook", "powerSGD_hook", LOW_RANK
    named = any(name.value == hook for name in source.all_nodes(cst.Name))
    other = any(called_method(call) == "register_comm_hook" for call in source.all_nodes(cst.Call))
    for call in source.calls_of(DDP):
        assigned = source.parent_of(call)
        statement = source.parent_of(assigned) if isinstance(assigned, cst.Assign) else None
        if named:
            edits.done = True
        elif other:
            edits.why.append(f"line {source.line_of(call)} wraps a model that has another hook")
        elif isinstance(assigned, cst.Assign) and isinstance(statement, cst.SimpleStatementLine):
            model = source.code_of(assigned.targets[0].target)
            imported = f"from {HOOKS} import {module}"
            registered = f"{model}.register_comm_hook({state}, {module}.{hook})"
            edits.changes[statement] = insert_after(source, imported, registered)
            edits.done = True
        else:
            edits.why.append(f"line {source.line_of(call)} wraps a model without giving it a name")
    return edits.rewrite_file(source)
