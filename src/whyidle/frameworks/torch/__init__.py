"""What PyTorch calls things."""

from __future__ import annotations

from typing import Final

NAME: Final = "pytorch"
