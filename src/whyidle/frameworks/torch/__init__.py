"""PyTorch."""

from __future__ import annotations

from typing import Final

NAME: Final = "pytorch"
TITLE: Final = "PyTorch"
