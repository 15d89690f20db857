"""JAX."""

from __future__ import annotations

from typing import Final

NAME: Final = "jax"
TITLE: Final = "JAX"
