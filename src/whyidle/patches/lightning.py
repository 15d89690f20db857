"""``Trainer(...)`` of Lightning."""

from __future__ import annotations

from dataclasses import replace

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, current
from whyidle.patches._setter import Setter
from whyidle.patches._source import source_of

TRAINERS = (
    "lightning.Trainer",
    "lightning.pytorch.Trainer",
    "lightning.pytorch.trainer.Trainer",
    "pytorch_lightning.Trainer",
    "pytorch_lightning.trainer.Trainer",
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
    """The trainer's own switches."""
    if "lightning" not in text:
        return Rewrite(text)
    source = source_of(text)
    keyword = KEYWORDS[change.knob]
    calls = source.calls(TRAINERS)
    if change.knob != "autocast.dtype":
        calls = [call for call in calls if current(source, call, keyword) not in (None, False)]
        return Setter(source, keyword, change).set(calls)
    if change.value != "bfloat16":
        return Rewrite(text)
    setter = Setter(source, keyword, replace(change, value="bf16-mixed", was=None))
    free = []
    for call in calls:
        if current(source, call, keyword) in (*FULL, "bf16-mixed"):
            free.append(call)
        else:
            setter.leave(call, "sets a precision of its own")
    return setter.set(free)
