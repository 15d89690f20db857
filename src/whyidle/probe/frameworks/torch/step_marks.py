"""How a real step divides into its passes and the rest: the batch, the update, the script's own. By
it what a look times, at another time and in memory that it left itself, is carried over to the job.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

CALL, UPDATE = 1, 2
"""marks of a step after its begin: the first call of a model, and the optimizer's step"""


class StepMarks:
    """Marks the steps of one optimizer, from a step boundary on, until ``stop``. A mark is a time
    (s) and the page faults of the process so far; a row has the marks of a step and its end."""

    def __init__(self, torch: Any, optimizer: Any, contain: Callable[..., Any]) -> None:
        from torch.nn.modules import module

        self.rows: list[list[tuple[float, int]]] = []
        self.row = [_read_clocks()]

        def note_call() -> None:
            if torch.is_grad_enabled():
                self._mark(CALL)

        contained = contain(note_call)
        enter = lambda *_: None if len(self.row) > CALL else contained()  # noqa: E731
        self.undo = [
            module.register_module_forward_pre_hook(enter).remove,
            optimizer.register_step_pre_hook(contain(lambda *_: self._mark(UPDATE))).remove,
        ]

    def _mark(self, place: int) -> None:
        if len(self.row) == place:
            self.row.append(_read_clocks())

    def end_step(self) -> None:
        """A step ends, and the next one begins."""
        if len(self.row) > UPDATE:
            self.rows.append([*self.row, _read_clocks()])
        self.row = [_read_clocks()]

    def stop(self) -> None:
        """Remove the hooks."""
        while self.undo:
            self.undo.pop()()

    def least_faults(self) -> list[int]:
        """The fewest page faults of the passes of a step, and of the rest of one."""
        return [int(min(column)) for column in zip(*map(_count_faults, self.rows), strict=True)]

    def median_shares(self, fault_s: float) -> list[float]:
        """Shares of a step in its passes, and in the rest, both without their page faults. The
        first step, which finds the memory that a look has left, is left out."""
        shares = []
        for row in self.rows[1:]:
            own, whole = row[UPDATE][0] - row[CALL][0], row[-1][0] - row[0][0]
            parts = zip((own, whole - own), _count_faults(row), strict=True)
            shares.append([max(s - count * fault_s, 0.0) / whole for s, count in parts])
        return [statistics.median(column) for column in zip(*shares, strict=True)]


def _count_faults(row: list[tuple[float, int]]) -> tuple[int, int]:
    own = row[UPDATE][1] - row[CALL][1]
    return own, row[-1][1] - row[0][1] - own


def count_faults() -> int:
    """Page faults of this process that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _read_clocks() -> tuple[float, int]:
    return time.perf_counter(), count_faults()
