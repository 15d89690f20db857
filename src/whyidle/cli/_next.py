"""The next useful commands after a diagnosis."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyidle.model.diagnosis import Diagnosis

Step = tuple[str, str]


def after(diagnosis: Diagnosis, paths: Sequence[Path], stored: str | None) -> list[Step]:
    """What to read, what to look at, and what to do with the next recording."""
    steps = []
    serious = [finding for finding in diagnosis.findings if finding.severity != "info"]
    if serious:
        steps.append((f"whyidle causes {serious[0].cause}", "what it is, and how to be sure"))
    again = "whyidle report last" if stored else f"whyidle explain {shell(paths)}"
    steps.append((f"{again} --html why.html", "the same with pictures"))
    if serious:
        steps.append((f"whyidle compare {'last' if stored else shell(paths)} AFTER", "once fixed"))
    return steps


def shell(paths: Sequence[Path]) -> str:
    """The paths as one would type them."""
    return " ".join(shlex.quote(str(path)) for path in paths)
