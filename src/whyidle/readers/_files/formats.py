"""The formats that whyidle reads besides traces of PyTorch's profiler. A reader is imported when
the first bytes of a file look like its format."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from whyidle.model.timeline import Timeline
from whyidle.readers._files.byte_stream import Progress

_JSON = (".json", ".json.gz")
_SQLITE = rb"SQLite format 3\0..[\1\2][\1\2].\x40\x20\x20"
"""with the constants of every database; its reader names one of another program by its tables"""


class Format:
    """An importer of this package, by the name of its module; see ``model.plugin.Importer``."""

    def __init__(self, module: str, suffixes: tuple[str, ...], magic: bytes) -> None:
        self.__name__ = module
        self.SUFFIXES = suffixes
        self._magic = re.compile(magic, re.DOTALL)

    def sniff(self, head: bytes) -> bool:
        """Whether a file's first (decompressed) bytes have this format."""
        return self._magic.match(head) is not None

    def load(
        self, path: Path, *, member: str | None = None, progress: Progress | None = None
    ) -> Timeline:
        """Read one process's recording. Raises InputError if the file cannot be read."""
        reader = import_module(f"whyidle.readers.{self.__name__}")
        timeline: Timeline = reader.load(path, member=member, progress=progress)
        return timeline


FORMATS = {
    form.__name__: form
    for form in (
        Format(
            "xplane",
            (".xplane.pb", ".xplane.pb.gz"),
            rb"\n.{1,5}?(?:\x08.{1,10}?)?\x12.(?:/host:|/device:|Task Environment)",
        ),
        Format("nsys", (".sqlite", ".sqlite.gz", ".sqlite3"), _SQLITE),
        Format("legacy_autograd", _JSON, rb'\s*\[.{0,4096}?"pid"\s*:\s*"(?:CPU|CUDA) functions"'),
        Format(
            "ascend", _JSON, rb'\s*[\[{].{0,4096}?(?:"Ascend Hardware"|AscendCL@|"ts"\s*:\s*"\d)'
        ),
    )
}
"""name -> format"""
