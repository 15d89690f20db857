"""Implementations of PyTorch's optimizers: ``fused``, ``foreach``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, current, meant
from whyidle.patches._setter import Setter
from whyidle.patches._source import Source, source_of

TAKING = {
    "fused": ("Adam", "AdamW", "SGD", "Adagrad"),
    "foreach": (
        "Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam",
        "ASGD", "Rprop",
    ),
}  # fmt: skip
"""the optimizers of PyTorch that take the argument"""


@source_form("optimizer.fused", "optimizer.foreach")
def optimizer(text: str, change: Change) -> Rewrite:
    """Where an optimizer of PyTorch's own is made. One implementation excludes the other, so a call
    that asks for another is left."""
    if "optim" not in text:
        return Rewrite(text)
    source = source_of(text)
    name = change.knob.rpartition(".")[2]
    taking = TAKING[name]
    places = [f"torch.optim.{each}" for each in taking]
    places += [f"torch.optim.{each.lower()}.{each}" for each in taking]
    keyword = Keyword(name, False)
    setter = Setter(source, keyword, change)
    free = []
    for call in setter.tried(meant(source, source.calls(places), keyword, change)):
        other = _other(source, call, name) if change.value else ""
        if other:
            setter.leave(call, f"may set {other}, which excludes {name}")
        else:
            free.append(call)
    return setter.set(free)


def _other(source: Source, call: cst.Call, name: str) -> str:
    rivals = [each for each in ("fused", "foreach", "differentiable") if each != name]
    for rival in rivals:
        if current(source, call, Keyword(rival, False)) not in (False, None):
            return rival
    return ""
