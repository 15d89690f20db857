"""Implementations of PyTorch's optimizers: ``fused``, ``foreach``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, current_value, matching_calls
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import SourceTree, source_of

TAKING = {
    "fused": ("Adam", "AdamW", "SGD", "Adagrad"),
    "foreach": (
        "Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam",
        "ASGD", "Rprop",
    ),
}  # fmt: skip
"""optimizers of PyTorch with this argument"""


@source_form("optimizer.fused", "optimizer.foreach")
def optimizer(text: str, change: KnobChange) -> Rewrite:
    """Calls that create an optimizer of PyTorch. The implementations exclude each other, so a call
    that requests another one is left."""
    if "optim" not in text:
        return Rewrite(text)
    source = source_of(text)
    name = change.knob.rpartition(".")[2]
    taking = TAKING[name]
    places = [f"torch.optim.{each}" for each in taking]
    places += [f"torch.optim.{each.lower()}.{each}" for each in taking]
    keyword = Keyword(name, False)
    setter = KeywordSetter(source, keyword, change)
    free = []
    calls = matching_calls(source, source.calls_of(places), keyword, change)
    for call in setter.tried_calls(calls):
        other = _excluded_keyword(source, call, name) if change.value else ""
        if other:
            setter.leave_call(call, f"may set {other}, which excludes {name}")
        else:
            free.append(call)
    return setter.set_keyword(free)


def _excluded_keyword(source: SourceTree, call: cst.Call, name: str) -> str:
    rivals = [each for each in ("fused", "foreach", "differentiable") if each != name]
    for rival in rivals:
        if current_value(source, call, Keyword(rival, False)) not in (False, None):
            return rival
    return ""
