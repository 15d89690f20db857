"""Names and arguments of PyTorch's ``DataLoader`` that several source forms use."""

from __future__ import annotations

from whyidle.patches._keyword_argument import Keyword

DATA_LOADER = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
BATCH_SIZE = Keyword("batch_size", 1, position=1)
