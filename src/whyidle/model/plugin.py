"""Protocols of importers, ours and those of other packages, and of exporters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from whyidle.model.diagnosis import Diagnosis

if TYPE_CHECKING:  # it needs numpy, which `whyidle watch` does without
    from whyidle.model.timeline import Timeline

Progress = Callable[[int, int], None]


class Importer(Protocol):
    """Reads one format of recordings: files that end in one of ``SUFFIXES`` (``(".json",)``) and
    whose beginning ``sniff`` accepts."""

    __name__: str
    SUFFIXES: tuple[str, ...]

    def sniff(self, head: bytes) -> bool:
        """Whether the first (decompressed) bytes of a file have this format."""

    def load(
        self, path: Path, *, member: str | None = None, progress: Progress | None = None
    ) -> Timeline:
        """Read one process's recording.

        Args:
            path: the file.
            member: the name of a member of a zip.
            progress: called with (bytes read, total bytes).

        Raises:
            InputError: the file cannot be read; the message says why.
        """


class Exporter(Protocol):
    """Renders a diagnosis in one form."""

    def render(self, diagnosis: Diagnosis) -> str:
        """Render the form as text; the same diagnosis gives the same text."""
