"""Profiles of TensorFlow, Keras and JAX (XPlane): one host, and its GPUs or TPUs if it has any."""

from __future__ import annotations

import re
from pathlib import Path

from whyidle.model.timeline import Timeline
from whyidle.readers._files.byte_stream import Progress

SUFFIXES = (".xplane.pb", ".xplane.pb.gz")
_MAGIC = re.compile(
    rb"\n.{1,5}?(?:\x08.{1,10}?)?\x12.(?:/host:|/device:|Task Environment)", re.DOTALL
)


def sniff(head: bytes) -> bool:
    """Return whether a file's first (decompressed) bytes have this format."""
    return _MAGIC.match(head) is not None


def load(path: Path, *, member: str | None = None, progress: Progress | None = None) -> Timeline:
    """Read one host's profile: a file or a zip's ``member``.

    Raises:
        InputError: the file cannot be opened.
        BrokenTraceError: nothing in it could be read.
    """
    from whyidle.readers.xplane.xplane_timeline import read_profile  # noqa: PLC0415  # takes 4 ms

    return read_profile(path, member, progress)
