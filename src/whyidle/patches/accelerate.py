"""``Accelerator(...)`` of Hugging Face's Accelerate, and its loaders."""

from __future__ import annotations

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._precision_argument import set_mixed_precision
from whyidle.patches._source_tree import source_of

ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
LOADING = tuple(
    f"accelerate.{module}DataLoaderConfiguration" for module in ("", "utils.", "utils.dataclasses.")
)
PRECISION = Keyword("mixed_precision", None, position=2)
NON_BLOCKING = Keyword("non_blocking", False)


@source_form("autocast.dtype", "copy.non_blocking")
def accelerate(text: str, change: KnobChange) -> Rewrite:
    """Calls in the program itself, which override the configuration of ``accelerate launch``."""
    if "accelerate" not in text:
        return Rewrite(text)
    source = source_of(text)
    if change.knob == "autocast.dtype":
        return set_mixed_precision(
            source, change, ACCELERATORS, PRECISION, full=(None, "no"), wanted="bf16"
        )
    return KeywordSetter(source, NON_BLOCKING, change).set_keyword(source.calls_of(LOADING))
