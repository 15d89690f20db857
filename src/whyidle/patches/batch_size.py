"""Larger batches for loaders that shuffle, as training loaders do."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, argument_value, current_value
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._loader_arguments import BATCH_SIZE, DATA_LOADER
from whyidle.patches._multiplied_values import format_factor, multiply_argument
from whyidle.patches._source_tree import NO_LITERAL, SourceTree, source_of

SHUFFLE = Keyword("shuffle", None, position=2)
SAMPLERS = (Keyword("sampler", None, position=3), Keyword("batch_sampler", None, position=4))


@source_form("loader.batch_size_times")
def batch_size(text: str, change: KnobChange) -> Rewrite:
    """Multiplies the batch size of loaders that evidently shuffle; where a sampler or the run
    decides the order, a person must say whether the loader is for training."""
    if "DataLoader" not in text or not isinstance(change.value, int | float):
        return Rewrite(text)
    source, edits = source_of(text), FileEdits()
    factor = format_factor(change.value)
    for call in source.calls_of(DATA_LOADER):
        shuffles = _shuffles_batches(source, call, change)
        if shuffles is None:
            edits.why.append(
                f"line {source.line_of(call)} makes a DataLoader that may or may not shuffle"
            )
        elif shuffles:
            multiply_argument(source, edits, call, BATCH_SIZE, factor, whole="." in factor)
    return edits.rewrite_file(source)


def _shuffles_batches(source: SourceTree, call: cst.Call, change: KnobChange) -> bool | None:
    for sampler in SAMPLERS:
        value = argument_value(call, sampler)
        if value is not None and source.literal_value(value) is not None:
            return None
    shuffle = current_value(source, call, SHUFFLE, change.options)
    return None if shuffle is NO_LITERAL else bool(shuffle)
