"""Looks at this machine: what can be measured here, what cannot, and how to close each gap."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from whyidle.engine import _gpus, _host, _software, _sources
from whyidle.model.machine import Machine


def examine(
    *, root: Path = Path("/"), environ: Mapping[str, str], folder: Path, store: Path
) -> Machine:
    """Every check, in the order of the report. Nothing is changed; plug-ins of other packages are
    imported, frameworks are not.

    Args:
        root: where the file system begins (tests put another one here).
        environ: the environment variables.
        folder: the working folder, whose storage is looked at.
        store: where runs would be kept.
    """
    gpus = _gpus.checks(root)
    found = any(check.name == "GPU" and check.state == "ok" for check in gpus)
    return Machine(
        checks=[
            *_software.checks(gpu=found),
            *gpus,
            *_host.checks(root, environ),
            *_sources.checks(root, environ, gpu=found),
            *_host.storage(root, folder, store),
        ]
    )
