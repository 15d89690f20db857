"""``Trainer(...)`` and ``Fabric(...)`` of Lightning."""

from __future__ import annotations

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, current
from whyidle.patches._precision import mixed
from whyidle.patches._setter import Setter
from whyidle.patches._source import source_of

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
    "torch.deterministic": Keyword("deterministic", None),
}
FULL = (None, 32, "32", "32-true")
"""what the precision may be for autocast to take its place"""


@source_form(*KEYWORDS)
def lightning(text: str, change: Change) -> Rewrite:
    """The trainer's own switches, and the precision of Fabric."""
    if "lightning" not in text:
        return Rewrite(text)
    source = source_of(text)
    keyword = KEYWORDS[change.knob]
    if change.knob == "autocast.dtype":
        makers = (*TRAINERS, *FABRICS)
        return mixed(source, change, makers, keyword, full=FULL, wanted="bf16-mixed")
    calls = source.calls(TRAINERS)
    calls = [call for call in calls if current(source, call, keyword) not in (None, False)]
    return Setter(source, keyword, change).set(calls)
