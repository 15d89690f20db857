"""What a job's environment needs so that the emulated accelerator is found, and read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def add_emulator(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which ``import emulator.device`` works in any folder, whyidle reads the
    counters of the device, and no stack shows the device's own frames."""
    path = [str(ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join(path),
        "WHYIDLE_SOURCES": "emulator.source",
        "WHYIDLE_DRIVER": str(Path(__file__).parent / "device"),
    }
