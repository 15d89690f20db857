"""``Accelerator(...)`` of Hugging Face's Accelerate."""

from __future__ import annotations

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword
from whyidle.patches._precision_argument import set_mixed_precision
from whyidle.patches._source_tree import source_of

ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
PRECISION = Keyword("mixed_precision", None, position=2)


@source_form("autocast.dtype")
def accelerate(text: str, change: KnobChange) -> Rewrite:
    """Calls in the program itself, which override the configuration of ``accelerate launch``."""
    if "accelerate" not in text:
        return Rewrite(text)
    source = source_of(text)
    return set_mixed_precision(
        source, change, ACCELERATORS, PRECISION, full=(None, "no"), wanted="bf16"
    )
