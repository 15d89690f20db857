"""Larger batches where a loader shuffles, as loaders that train do."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._factor import multiply, number
from whyidle.patches._keyword import Keyword, argument, current
from whyidle.patches._loaders import BATCH_SIZE, DATA_LOADER
from whyidle.patches._setter import Edits
from whyidle.patches._source import NO_LITERAL, Source, source_of

SHUFFLE = Keyword("shuffle", None, position=2)
SAMPLERS = (Keyword("sampler", None, position=3), Keyword("batch_sampler", None, position=4))


@source_form("loader.batch_size_times")
def batch_size(text: str, change: Change) -> Rewrite:
    """The loaders that are plain to see to shuffle, so many times their own batch size; of an order
    that a sampler or the run decides, a person has to say whether it trains."""
    if "DataLoader" not in text or not isinstance(change.value, int | float):
        return Rewrite(text)
    source, edits = source_of(text), Edits()
    factor = number(change.value)
    for call in source.calls(DATA_LOADER):
        shuffles = _shuffles(source, call, change)
        if shuffles is None:
            edits.why.append(f"line {source.line(call)} makes a DataLoader that may shuffle or not")
        elif shuffles:
            multiply(source, edits, call, BATCH_SIZE, factor, whole="." in factor)
    return edits.rewrite(source)


def _shuffles(source: Source, call: cst.Call, change: Change) -> bool | None:
    """None where that is not plain to see."""
    for sampler in SAMPLERS:
        value = argument(call, sampler)
        if value is not None and source.literal(value) is not None:
            return None
    shuffle = current(source, call, SHUFFLE, change.options)
    return None if shuffle is NO_LITERAL else bool(shuffle)
