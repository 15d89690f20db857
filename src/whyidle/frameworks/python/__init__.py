"""Python."""

from __future__ import annotations

from typing import Final

NAME: Final = "python"
TITLE: Final = "Python"
