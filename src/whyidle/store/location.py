"""Locates the run store."""

from __future__ import annotations

import os
from pathlib import Path

from whyidle.store.run_store import Store

VARIABLE = "WHYIDLE_HOME"
FOLDER = ".whyidle"


def locate_store(folder: str | Path | None = None) -> Store:
    """The store in ``folder``, ``$WHYIDLE_HOME`` or ``.whyidle`` of the working directory."""
    return Store(Path(folder or os.environ.get(VARIABLE) or FOLDER))
