"""What modules of other packages must have to be used as importers and exporters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.timeline import Timeline

Progress = Callable[[int, int], None]


class Importer(Protocol):
    """Reads one format of recordings. ``SUFFIXES`` are the endings of its files (``(".json",)``);
    a file is its own if it has such an ending and ``sniff`` knows its beginning."""

    __name__: str
    SUFFIXES: tuple[str, ...]

    def sniff(self, head: bytes) -> bool:
        """Whether a file's first (decompressed) bytes are of this format."""

    def load(
        self, path: Path, *, member: str | None = None, progress: Progress | None = None
    ) -> Timeline:
        """Read one process's recording.

        Args:
            path: the file.
            member: the name of a member, where the file is a zip.
            progress: to be called with (bytes read, bytes in all).

        Raises:
            InputError: the file cannot be read; the message says why.
        """


class Exporter(Protocol):
    """Writes a diagnosis in one form."""

    def render(self, diagnosis: Diagnosis) -> str:
        """The whole form as text; the same diagnosis gives the same text."""
