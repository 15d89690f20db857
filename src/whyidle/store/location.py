"""Where the run store is."""

from __future__ import annotations

import os
from pathlib import Path

from whyidle.store.run_store import Store

VARIABLE = "WHYIDLE_HOME"
FOLDER = ".whyidle"


def locate_store(folder: str | Path | None = None) -> Store:
    """The store in ``folder``, else in ``$WHYIDLE_HOME``, else in ``.whyidle`` of the working
    directory. Nothing is created."""
    return Store(Path(folder or os.environ.get(VARIABLE) or FOLDER))
