"""The guest's part of a trial's shield: it names what the system cannot hold back, and, where the
system diverts nothing, diverts what Python writes.

Loaded by ``boot/sitecustomize.py`` at the start of every Python process of a trial, before any code
of the job's, under a name of its own; standard library only. ``WHYIDLE_SHIELD`` is the path of what
is asked, a JSON object (`notes.Asked`).
"""

from __future__ import annotations

import json

from . import notes


def install(path: str) -> None:
    """Watch this process from now on, and divert what it writes, as asked."""
    with open(path, encoding="utf-8") as file:
        asked = notes.Asked(**json.load(file))
    if asked.layers is not None:
        from . import divert, shared, view, writers

        marks = asked.layers + "/shared"
        shared.install(marks, asked.held)
        seen = view.View(asked.layers, asked.left, asked.held)
        divert.Diversion(seen, shared.Marks(seen, marks)).install()
        writers.install(seen)
    notes.install(asked)
