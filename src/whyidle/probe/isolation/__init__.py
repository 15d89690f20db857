"""Isolation of a trial within its Python processes: it names what the system cannot hold back,
and, where the system diverts nothing, diverts what Python writes.

Loaded by ``boot/sitecustomize.py`` at the start of every Python process of a trial, before any code
of the job's, under a name of its own; standard library only. ``WHYIDLE_ISOLATION`` is the path of
what is asked, a JSON object (`audit.Asked`).
"""

from __future__ import annotations

import json
import os

from . import audit


def install(path: str) -> None:
    """Watch this process from now on, and divert what it writes, as asked."""
    with open(path, encoding="utf-8") as file:
        asked = audit.AuditRequest(**json.load(file))
    layers = asked.layers
    if layers is not None:
        from . import diversion, mirror, native_writers

        _leave_number(layers)
        os.register_at_fork(after_in_child=lambda: _leave_number(layers))
        divert = diversion.Diversion(mirror.Mirror(layers, asked.left))
        divert.install_replacements()
        native_writers.install(divert)
    audit.install_audit(asked)


def _leave_number(folder: str) -> None:
    """PyTorch names shared memory after the process that makes it: what is left of it is removed
    by that."""
    open(os.path.join(folder, "processes", str(os.getpid())), "w").close()
