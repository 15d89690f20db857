"""A file for the textfile collector of Prometheus' node exporter.

The file is replaced in one step, so that the collector never reads half of it, and removed at the
end, so that it does not keep the last values for ever.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from whyidle.errors import OutputError
from whyidle.machine.publishers._text_format import format_page
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric
from whyidle.model.live.publisher import Destination, Publisher

FAULTS = (OSError,)


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    def publish(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Replace the file."""
        del machine
        draft = self._path.with_suffix(".tmp")  # the collector reads *.prom only
        draft.write_text(format_page(metrics), encoding="utf-8")
        draft.replace(self._path)

    def close(self, diagnosis: Diagnosis | None) -> None:
        """Remove the file."""
        del diagnosis
        self._path.unlink(missing_ok=True)


def open(destination: Destination) -> Publisher:  # noqa: A001  # a publisher's verb
    """Write ``NAME.prom`` in the folder ``where``."""
    folder = Path(destination.where)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise OutputError(
            f"Cannot write to {folder}.",
            why="It is not a writable folder.",
            hint="Name the folder of node-exporter's --collector.textfile.directory.",
        )
    return _File(folder / f"{destination.name}.prom")
