"""Which store a command means."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyidle.store.run_store import Store


def store_of(args: argparse.Namespace) -> Store:
    """The store of --store, of $WHYIDLE_HOME, or of the working directory."""
    from whyidle.store.location import locate_store

    return locate_store(args.store)
