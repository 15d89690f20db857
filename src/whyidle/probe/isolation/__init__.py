"""Isolates a trial within its Python processes: reports what the system cannot prevent and, where
the system does not divert writes, diverts what Python writes.

``boot/sitecustomize.py`` loads it at the start of every Python process of a trial, before any code
of the job, under a name of its own; standard library only. ``WHYIDLE_ISOLATION`` is the path of a
JSON object with the request (``audit.AuditRequest``).
"""

from __future__ import annotations

import json
import os

from . import audit


def install(path: str) -> None:
    """Audit this process from now on, and divert what it writes, as requested."""
    with open(path, encoding="utf-8") as file:
        request = audit.AuditRequest(**json.load(file))
    layers = request.layers
    if layers is not None:
        from . import diversion, mirror, native_writers

        _leave_number(layers)
        os.register_at_fork(after_in_child=lambda: _leave_number(layers))
        divert = diversion.Diversion(mirror.Mirror(layers, request.left))
        divert.install_replacements()
        native_writers.install(divert)
    audit.install_audit(request)


def _leave_number(folder: str) -> None:
    """Record the process id, by which PyTorch names shared memory, to remove leftovers."""
    open(os.path.join(folder, "processes", str(os.getpid())), "w").close()
