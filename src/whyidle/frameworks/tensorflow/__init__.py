"""TensorFlow and Keras."""

from __future__ import annotations

from typing import Final

NAME: Final = "tensorflow"
TITLE: Final = "TensorFlow"
