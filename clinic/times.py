"""What a job tells of its steps, and the rate that comes of that."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clinic.card import Measure

WARM = 0.2
"""share of the time of an arm, its beginning, that is left out"""


class JobError(Exception):
    """A job that did not end well, or told nothing."""


class Times(msgspec.Struct, frozen=True):
    """What a job writes of itself: seconds of a clock that all processes share."""

    begin: float
    marks: list[float]
    samples: float | list[float]
    end: float | None = None
    """of the script, where it does something after its last step"""
    drained: list[int] = []
    """marks at which the device had done all that it was given: elsewhere its host is ahead"""

    def rate(self, measure: Measure) -> float:
        """Samples per second, steady, or from the script's first line to its end.

        Raises:
            JobError: there were not enough steps.
        """
        marks = self.marks
        if len(marks) < 4:
            raise JobError(f"only {len(marks)} steps were made")
        each = self.samples if isinstance(self.samples, list) else [self.samples] * len(marks)
        if measure == "whole":
            return sum(each) / ((self.end or marks[-1]) - self.begin)
        since = marks[0] + WARM * (marks[-1] - marks[0])
        first = next(i for i, mark in enumerate(marks) if mark >= since)
        first, last = min(first, len(marks) - 2), len(marks) - 1
        if len(self.drained) > 1:
            first, last = self.drained[0], self.drained[-1]
        return sum(each[first + 1 : last + 1]) / (marks[last] - marks[first])


def written(folder: Path) -> Times:
    """What the job in a folder wrote of itself. Raises JobError where it wrote nothing."""
    path = folder / "times.json"
    if not path.is_file():
        raise JobError("the job wrote no times")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Times)
    except msgspec.DecodeError as error:
        raise JobError(f"the job's times cannot be read: {error}") from error
