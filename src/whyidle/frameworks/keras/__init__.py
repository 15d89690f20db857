"""Keras."""

from __future__ import annotations

from typing import Final

NAME: Final = "keras"
TITLE: Final = "Keras"
