"""TensorBoard: a folder ``whyidle`` beside the event files that the job writes.

Needs the extra ``tensorboard``. TensorBoard shows the folder as a run of its own, on the same step
axis as the job's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whyidle.errors import MissingExtraError
from whyidle.machine.publishers._tracked_keys import collect_keys
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric
from whyidle.model.live.publisher import Destination, Publisher

FAULTS = (OSError,)


class _Folder:
    """Scalars in an event file. ``event`` and ``summary`` are TensorBoard's message types."""

    def __init__(self, writer: Any, event: Any, summary: Any) -> None:
        self._writer, self._event, self._summary = writer, event, summary

    def publish(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Write one look."""
        del metrics
        step, keys = collect_keys(machine)
        values = [self._summary.Value(tag=key, simple_value=one) for key, one in keys.items()]
        row = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=row))
        self._writer.flush()

    def close(self, diagnosis: Diagnosis | None) -> None:
        """End the file."""
        del diagnosis
        self._writer.close()


def open(destination: Destination) -> Publisher:  # noqa: A001  # a publisher's verb
    """Write into ``whyidle`` in the tracker's ``log_dir``."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415  # an extra
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            "TensorBoard is not installed in whyidle's environment.",
            hint="pip install 'whyidle[tensorboard]'",
        ) from error
    folder = Path(destination.folder, destination.tracker["log_dir"], "whyidle")
    return _Folder(EventFileWriter(str(folder)), Event, Summary)
