"""Copies of batches to the device that nobody waits for: ``non_blocking=True``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword
from whyidle.patches._setter import Setter
from whyidle.patches._source import Source, source_of
from whyidle.patches._training import method, training_loops

NON_BLOCKING = Keyword("non_blocking", False)
NO_DEVICE = ("float", "int", "double", "half", "bfloat", "long", "bool", "uint", "dtype", "cpu")


@source_form("copy.non_blocking")
def copies(text: str, change: Change) -> Rewrite:
    """``.to(DEVICE)`` and ``.cuda()`` on the finding's lines; without them those on what a training
    loop takes from its loader, where that is unpacked or looked up. What the parts of a batch that
    is handed on whole are, and whether its ``to`` knows the argument, is not plain to see."""
    moved = ".to(" in text or ".cuda(" in text
    if not moved or ("backward" not in text and not change.lines):
        return Rewrite(text)
    source = source_of(text)
    moves = [call for call in source.every(cst.Call) if _moves(source, call)]
    named = [call for call in moves if set(source.lines(call)) & set(change.lines)]
    setter = Setter(source, NON_BLOCKING, change)
    if named:
        return setter.set(named)
    plain = []
    for loop in training_loops(source):
        parts, whole = _targets(source, loop)
        for call in moves:
            receiver = _receiver(source, call)
            if call in source.inside(cst.Call, loop.body) and receiver in parts:
                plain.append(call)
            elif call in source.inside(cst.Call, loop.body) and receiver in whole:
                setter.leave(call, f"moves {receiver}, which may be anything")
    return setter.set(plain)


def _moves(source: Source, call: cst.Call) -> bool:
    """Whether a call moves something to the device, as far as it says."""
    by_place = [source.literal(arg.value) for arg in call.args[1:] if arg.keyword is None]
    if any(isinstance(value, bool) for value in by_place):
        return False  # it says so already
    if method(call) == "cuda":
        return not source.names(call.func) - {""}
    if method(call) != "to" or not call.args or call.args[0].star:
        return False
    first = source.code(call.args[0].value)
    keyword = call.args[0].keyword
    if keyword is not None and keyword.value != "device":
        return False
    return not any(word in first.lower() for word in NO_DEVICE)


def _receiver(source: Source, call: cst.Call) -> str:
    assert isinstance(call.func, cst.Attribute)
    value = call.func.value
    base = value
    while isinstance(base, cst.Subscript):
        base = base.value
    return source.code(base) + ("[]" if base is not value else "")


def _targets(source: Source, loop: cst.For) -> tuple[set[str], set[str]]:
    """Names that are parts of a batch, and names that are whole batches. ``enumerate`` gives a
    number and a batch; the values of a batch's ``items()`` are parts."""
    target: cst.BaseExpression = loop.target
    if isinstance(loop.iter, cst.Call) and source.code(loop.iter.func) == "enumerate":
        target = target.elements[1].value if isinstance(target, cst.Tuple) else target
    if isinstance(target, cst.Tuple | cst.List):
        return {source.code(each.value) for each in target.elements}, set()
    whole = source.code(target)
    parts = {f"{whole}[]"}
    for each in source.inside(cst.Assign, loop.body):
        if source.code(each.value) == whole and isinstance(each.targets[0].target, cst.Tuple):
            parts |= {source.code(e.value) for e in each.targets[0].target.elements}
    for part in source.inside(cst.CompFor, loop.body):
        if source.code(part.iter) in (f"{whole}.items()", whole):
            inner = part.target
            last = inner.elements[-1].value if isinstance(inner, cst.Tuple) else inner
            parts.add(source.code(last))
    return parts, {whole}
