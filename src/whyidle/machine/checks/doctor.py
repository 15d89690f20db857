"""Checks this machine: what can be measured, what cannot, and how to close each gap."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from whyidle.machine.checks import gpu_checks, host_checks, software_checks, source_checks
from whyidle.model.machine import Machine


def examine_machine(
    *, root: Path = Path("/"), environ: Mapping[str, str], folder: Path, store: Path
) -> Machine:
    """Run all checks, in the order of the report. Changes nothing; imports plug-ins, but no
    frameworks. ``root`` is where the file system begins, ``folder`` the working folder, whose
    storage is checked, ``store`` the folder of stored runs."""
    gpus = gpu_checks.check_gpus(root)
    found = any(check.name == "GPU" and check.state == "ok" for check in gpus)
    return Machine(
        checks=[
            *software_checks.check_software(gpu=found),
            *gpus,
            *host_checks.check_host(root, environ),
            *source_checks.check_sources(root, environ, gpu=found),
            *host_checks.check_storage(root, folder, store),
        ]
    )
