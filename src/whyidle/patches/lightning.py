"""``Trainer(...)`` and ``Fabric(...)`` of Lightning."""

from __future__ import annotations

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, current_value
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._precision_argument import set_mixed_precision
from whyidle.patches._source_tree import source_of

TRAINERS = (
    "lightning.Trainer",
    "lightning.pytorch.Trainer",
    "lightning.pytorch.trainer.Trainer",
    "pytorch_lightning.Trainer",
    "pytorch_lightning.trainer.Trainer",
)
FABRICS = (
    "lightning.Fabric",
    "lightning.fabric.Fabric",
    "lightning.fabric.fabric.Fabric",
    "lightning_fabric.Fabric",
    "lightning_fabric.fabric.Fabric",
)
KEYWORDS = {
    "autocast.dtype": Keyword("precision", None),
    "autograd.anomaly_mode": Keyword("detect_anomaly", False),
}
FULL = (None, 32, "32", "32-true")
"""precisions that autocast may replace"""


@source_form(*KEYWORDS)
def lightning(text: str, change: KnobChange) -> Rewrite:
    """The trainer's own switches, and Fabric's precision."""
    if "lightning" not in text:
        return Rewrite(text)
    source = source_of(text)
    keyword = KEYWORDS[change.knob]
    if change.knob == "autocast.dtype":
        makers = (*TRAINERS, *FABRICS)
        return set_mixed_precision(source, change, makers, keyword, full=FULL, wanted="bf16-mixed")
    calls = source.calls_of(TRAINERS)
    calls = [call for call in calls if current_value(source, call, keyword) not in (None, False)]
    return KeywordSetter(source, keyword, change).set_keyword(calls)
