"""Which store a command means."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyidle.store.runs import Store

VARIABLE = "WHYIDLE_HOME"
FOLDER = ".whyidle"


def store_of(args: argparse.Namespace) -> Store:
    """The store of --store, of $WHYIDLE_HOME, or of the working directory."""
    from whyidle.store.runs import Store

    named = args.store or os.environ.get(VARIABLE) or FOLDER
    return Store(Path(named))
