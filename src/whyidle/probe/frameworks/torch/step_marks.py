"""How a real step divides into its passes and the rest: the batch, the update, the script's own.

A look computes passes again, at another time and in memory that it has left itself. What it finds
there is carried over to the job by the passes of the job's own steps, a few before the look and
after it.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

END, CALL, UPDATE = 0, 1, 2
"""marks of a step: the end of the one before, the first call of a model, the optimizer's step"""


class StepMarks:
    """Marks the steps of one optimizer, from a step boundary on, until ``stop``."""

    def __init__(self, torch: Any, optimizer: Any, contain: Callable[..., Any]) -> None:
        from torch.nn.modules import module

        self.rows: list[list[tuple[float, int]]] = []
        """of each step four times (s) with page faults of the process: its marks and its end"""
        self.row = [_read_clocks()]

        def note_call(*_: Any) -> None:
            if torch.is_grad_enabled():
                self._mark(CALL)

        call = contain(note_call)
        self.undo = [
            module.register_module_forward_pre_hook(
                lambda *_: None if len(self.row) > CALL else call()
            ).remove,
            optimizer.register_step_pre_hook(contain(lambda *_: self._mark(UPDATE))).remove,
        ]

    def _mark(self, place: int) -> None:
        if len(self.row) == place:
            self.row.append(_read_clocks())

    def end_step(self) -> None:
        """A step ends, and the next one begins."""
        now = _read_clocks()
        if len(self.row) > UPDATE:
            self.rows.append([*self.row, now])
        self.row = [now]

    def stop(self) -> None:
        """Remove the hooks."""
        while self.undo:
            self.undo.pop()()

    def least_faults(self) -> tuple[int, int]:
        """The fewest page faults of the passes of a step, and of the rest of one."""
        rows = [_divide_row([faults for _, faults in row]) for row in self.rows]
        return (int(min(own for own, _ in rows)), int(min(r for _, r in rows))) if rows else (0, 0)

    def median_shares(self, fault_s: float) -> tuple[float, float]:
        """Shares of a step in its passes, and in the rest, both without their page faults. The
        first step, which finds the memory that a look has left, is left out."""
        shares = []
        for row in self.rows[1:]:
            times, faults = ([mark[kind] for mark in row] for kind in (0, 1))
            parts = zip(_divide_row(times), _divide_row(faults), strict=True)
            whole = times[-1] - times[0]
            shares.append([max(s - count * fault_s, 0.0) / whole for s, count in parts])
        own, rest = (statistics.median(column) for column in zip(*shares, strict=True))
        return own, rest


def _divide_row(marks: list[Any]) -> tuple[float, float]:
    own = marks[UPDATE] - marks[CALL]
    return own, marks[-1] - marks[END] - own


def count_faults() -> int:
    """Page faults of this process that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _read_clocks() -> tuple[float, int]:
    return time.perf_counter(), count_faults()
