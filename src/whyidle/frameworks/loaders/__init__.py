"""PyTorch's DataLoader."""

from __future__ import annotations

from typing import Final

NAME: Final = "loaders"
TITLE: Final = "PyTorch's DataLoader"
