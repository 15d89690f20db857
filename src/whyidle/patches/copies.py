"""Non-blocking copies of batches to the device: ``non_blocking=True``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._training_loops import called_method, training_loops

NON_BLOCKING = Keyword("non_blocking", False)
NO_DEVICE = ("float", "int", "double", "half", "bfloat", "long", "bool", "uint", "dtype", "cpu")


@source_form("copy.non_blocking")
def copies(text: str, change: KnobChange) -> Rewrite:
    """``.to(DEVICE)`` and ``.cuda()`` on the finding's lines; without them those on the parts of a
    batch in a training loop, where the loop unpacks or indexes it. Whether a whole batch object
    supports the argument is not evident."""
    moved = ".to(" in text or ".cuda(" in text
    if not moved or ("backward" not in text and not change.lines):
        return Rewrite(text)
    source = source_of(text)
    moves = [call for call in source.all_nodes(cst.Call) if _moves_to_device(source, call)]
    named = [call for call in moves if set(source.lines_of(call)) & set(change.lines)]
    setter = KeywordSetter(source, NON_BLOCKING, change)
    if named:
        return setter.set_keyword(named)
    plain = []
    for loop in training_loops(source):
        parts, whole = _batch_names(source, loop)
        inside = source.nodes_inside(cst.Call, loop.body)
        for call in filter(inside.__contains__, moves):
            receiver = _receiver_code(source, call)
            if receiver in parts:
                plain.append(call)
            elif receiver in whole:
                setter.leave_call(call, f"moves {receiver}, whose type is unknown")
    return setter.set_keyword(plain)


def _moves_to_device(source: SourceTree, call: cst.Call) -> bool:
    by_place = [source.literal_value(arg.value) for arg in call.args[1:] if arg.keyword is None]
    if any(isinstance(value, bool) for value in by_place):
        return False  # it already passes the argument
    if called_method(call) == "cuda":
        return not source.qualified_names(call.func) - {""}
    if called_method(call) != "to" or not call.args or call.args[0].star:
        return False
    first = source.code_of(call.args[0].value)
    keyword = call.args[0].keyword
    if keyword is not None and keyword.value != "device":
        return False
    return not any(word in first.lower() for word in NO_DEVICE)


def _receiver_code(source: SourceTree, call: cst.Call) -> str:
    assert isinstance(call.func, cst.Attribute)
    value = call.func.value
    base = value
    while isinstance(base, cst.Subscript):
        base = base.value
    return source.code_of(base) + ("[]" if base is not value else "")


def _batch_names(source: SourceTree, loop: cst.For) -> tuple[set[str], set[str]]:
    """Names of parts of a batch, and of whole batches. ``enumerate`` yields a number and a batch;
    the values of a batch's ``items()`` are parts."""
    target: cst.BaseExpression = loop.target
    if isinstance(loop.iter, cst.Call) and source.code_of(loop.iter.func) == "enumerate":
        target = target.elements[1].value if isinstance(target, cst.Tuple) else target
    if isinstance(target, cst.Tuple | cst.List):
        return {source.code_of(each.value) for each in target.elements}, set()
    whole = source.code_of(target)
    parts = {f"{whole}[]"}
    for each in source.nodes_inside(cst.Assign, loop.body):
        if source.code_of(each.value) == whole and isinstance(each.targets[0].target, cst.Tuple):
            parts |= {source.code_of(e.value) for e in each.targets[0].target.elements}
    for part in source.nodes_inside(cst.CompFor, loop.body):
        if source.code_of(part.iter) in (f"{whole}.items()", whole):
            inner = part.target
            last = inner.elements[-1].value if isinstance(inner, cst.Tuple) else inner
            parts.add(source.code_of(last))
    return parts, {whole}
