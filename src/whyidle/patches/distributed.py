"""Keywords of ``DistributedDataParallel(...)``."""

from __future__ import annotations

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, meant
from whyidle.patches._setter import Setter
from whyidle.patches._source import Source

DDP = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
KEYWORDS = {
    "ddp.bucket_cap_mb": Keyword("bucket_cap_mb", None),
    "ddp.gradient_as_bucket_view": Keyword("gradient_as_bucket_view", False),
    "ddp.static_graph": Keyword("static_graph", False),
}


@source_form(*KEYWORDS)
def distributed(text: str, change: Change) -> Rewrite:
    """Where the model is wrapped."""
    if "DistributedDataParallel" not in text:
        return Rewrite(text)
    source = Source(text)
    keyword = KEYWORDS[change.knob]
    calls = meant(source, source.calls(DDP), keyword, change)
    return Setter(source, keyword, change).set(calls)
