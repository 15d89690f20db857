"""``Accelerator(...)`` of Hugging Face's Accelerate, and how it loads."""

from __future__ import annotations

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword
from whyidle.patches._precision import mixed
from whyidle.patches._setter import Setter
from whyidle.patches._source import source_of

ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
LOADING = tuple(
    f"accelerate.{module}DataLoaderConfiguration" for module in ("", "utils.", "utils.dataclasses.")
)
PRECISION = Keyword("mixed_precision", None, position=2)
NON_BLOCKING = Keyword("non_blocking", False)


@source_form("autocast.dtype", "copy.non_blocking")
def accelerate(text: str, change: Change) -> Rewrite:
    """Where a program makes them itself. What it says stands above what ``accelerate launch`` was
    told."""
    if "accelerate" not in text:
        return Rewrite(text)
    source = source_of(text)
    if change.knob == "autocast.dtype":
        return mixed(source, change, ACCELERATORS, PRECISION, full=(None, "no"), wanted="bf16")
    return Setter(source, NON_BLOCKING, change).set(source.calls(LOADING))
