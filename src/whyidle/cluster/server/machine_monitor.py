"""Looks at this machine while the server runs, and remembers its last hour."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from statistics import fmean
from typing import Final

from whyidle.machine.watch.machine_watch import MachineWatch
from whyidle.model.diagnosis import Document
from whyidle.model.documents.watch_document import GpuState, WatchedMachine

EVERY_S: Final = 2.0
MINUTES: Final = 60
WASTED: Final[tuple[GpuState, ...]] = ("idle-held", "idle-reserved", "stalled")
"""states in which somebody holds a GPU that does nothing"""


class StripMinute(Document, frozen=True, kw_only=True):
    """One minute of a GPU, or of the host: its most frequent state, and the mean of its use."""

    minute: int  # Unix time in minutes
    state: str
    busy: float | None


class Strip(Document, frozen=True, kw_only=True):
    """The last hour of a GPU; ``name`` is its place on this machine, or ``CPU`` of all cores."""

    name: str
    minutes: list[StripMinute]


class MachineMonitor:
    """Looks on a thread of its own, from ``start`` to ``close``. ``machine`` is the latest look."""

    def __init__(self) -> None:
        self.machine: WatchedMachine | None = None
        self._strips: dict[str, deque[tuple[int, str, float | None]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="whyidle-machine", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    def _run_loop(self) -> None:
        with closing(MachineWatch()) as watch:
            watch.look()  # the first knows no rates
            while not self._stop.wait(1.0 if self.machine is None else EVERY_S):
                self.machine = machine = watch.look()
                self._add_to_strips(machine)

    def _add_to_strips(self, machine: WatchedMachine) -> None:
        minute, host = int(time.time() // 60), machine.host
        rows = [(gpu.gpu, str(gpu.state), gpu.busy) for gpu in machine.gpus]
        if host.cores and host.cores_used is not None:
            rows.append(("CPU", "active", min(1.0, host.cores_used / host.cores)))
        most = int(MINUTES * 60 / EVERY_S)
        for name, state, busy in rows:
            self._strips.setdefault(name, deque(maxlen=most)).append((minute, state, busy))

    def strips(self) -> list[Strip]:
        """The last hour, minute by minute, as far as the server has looked."""
        return [
            Strip(name=name, minutes=_by_minute(list(rows))) for name, rows in self._strips.items()
        ]

    def wasted_gpu_minutes(self) -> float:
        """GPU-minutes of the last hour in which somebody held a GPU that did nothing."""
        looks = (state for name, rows in self._strips.items() for _, state, _ in list(rows))
        return sum(state in WASTED for state in looks) * EVERY_S / 60


def _by_minute(rows: Sequence[tuple[int, str, float | None]]) -> list[StripMinute]:
    minutes: dict[int, list[tuple[str, float | None]]] = {}
    for minute, state, busy in rows:
        minutes.setdefault(minute, []).append((state, busy))
    made = []
    for minute, looks in sorted(minutes.items())[-MINUTES:]:
        states = [state for state, _ in looks]
        known = [busy for _, busy in looks if busy is not None]
        made.append(
            StripMinute(
                minute=minute,
                state=max(set(states), key=states.count),
                busy=fmean(known) if known else None,
            )
        )
    return made
