"""The compilations of one process, in ``PID.compiles.json``."""

from __future__ import annotations

import threading
from typing import Any

from .. import wire
from .events import Events
from .recorder import ANNOTATION, clock_ns

MOST = 200
"""most recorded compilations; later ones are only counted"""
LONGEST = 300
"""recorded characters of a reason"""


class CompilationLog:
    """Records each compilation with its place, and the compiler's reason for repeating it."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.seen: dict[tuple[str, int, str], int] = {}
        self.compiles: list[dict[str, Any]] = []
        self.count = 0

    def add_compilation(
        self,
        key: tuple[str, int, str],
        begin: int,
        reason: Any,
        failed: str | None = None,
        end: int | None = None,
    ) -> tuple[str, str]:
        """Record a compilation of the function ``key`` (file, line, name) that ends now, or ended
        at ``end``. Returns role and label of its span."""
        turn = self.seen[key] = self.seen.get(key, 0) + 1
        place = f"{key[0]}({key[1]}): {key[2]}"
        name = f"whyidle::compile{' again' if turn > 1 else ''}#{place}"
        role = wire.RECOMPILE if turn > 1 else wire.COMPILE
        if end is None:
            end = clock_ns()
            self.events.add_span(role, name, ANNOTATION, begin)
        else:
            number = self.events.recorder.name_number(name, role)
            self.events.recorder.add((begin, end, threading.get_ident(), number, ANNOTATION))
        self.events.notify("on_compilation", begin, end)
        self.count += 1
        if len(self.compiles) < MOST:
            entry = {
                "file": key[0],
                "line": key[1],
                "function": key[2],
                "turn": turn,
                "began": begin,
                "seconds": (end - begin) / 1e9,
                "reason": shorten_text(reason if turn > 1 else None),
                "failed": failed,
            }
            self.compiles = [*self.compiles, entry]
        return role, name

    def write_document(self) -> None:
        """Publish the document for the writing thread; its contents are not changed afterwards."""
        self.events.recorder.documents["compiles.json"] = {
            "count": self.count,
            "functions": len(self.seen),
            "compiles": self.compiles,
        }


def shorten_text(text: Any) -> str | None:
    """Return a text of at most ``LONGEST`` characters."""
    return str(text)[:LONGEST] if text is not None else None
