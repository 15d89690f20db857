"""The interface of publishers: they follow a running machine or job, one destination per file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a publisher writes. ``where`` is an address; ``tracker`` are the
    facts that the job's own process reported of a tracker."""

    where: str = ""
    tracker: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()  # in which the job was started


class Publisher(Protocol):
    """An open destination, for one thread. Its first failure is reported once; looks go on."""

    def publish(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Publish one look."""

    def close(self, diagnosis: Diagnosis | None) -> None:
        """Publish the final diagnosis, if there is one, and release everything."""


class PublisherModule(Protocol):
    """The interface of every module in ``whyidle.publishers``. ``FAULTS`` are the exceptions that a
    destination that is away raises. A tracker's ``TRACKED`` are the facts that the job's process
    reports of an open run, each with the attributes and calls that lead to it from the tracker's
    package, which the job has imported: ``{"run": "mlflow.active_run().info.run_id"}``."""

    FAULTS: tuple[type[Exception], ...]

    def open(self, destination: Destination, /) -> Publisher:
        """Begin to publish.

        Raises:
            UsageError: the destination cannot be what was named.
            OutputError: it cannot be reached or written.
            MissingExtraError: a package is not installed.
        """
