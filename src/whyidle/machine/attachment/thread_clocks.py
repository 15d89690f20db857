"""How long each thread of a process tree ran and waited for a core, from the kernel's counters."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
PERIOD_S: Final = 0.02
SHARE: Final = 0.02
"""most of one core that reading the counters may take: 5 us a thread, on two virtual cores"""


class ThreadClocks:
    """Reads the counters of all threads of some processes until it is stopped."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._rows: dict[int, list[tuple[int, int, int]]] = {}
        self._owners: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, daemon=True)
        self.cpu_s = 0.0

    def __enter__(self) -> ThreadClocks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run_loop(self) -> None:
        period = PERIOD_S
        while not self._stop.wait(period):
            before = time.thread_time()
            for pid in self._pids:
                self._read_process(pid)
            cost = time.thread_time() - before
            period = max(PERIOD_S, cost / SHARE)
        self.cpu_s = time.thread_time()

    def _read_process(self, pid: int) -> None:
        try:
            threads = list(Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            return
        for folder in threads:
            try:
                ran, waited, turns = (folder / "schedstat").read_bytes().split()[:3]
            except (OSError, ValueError):
                continue
            now = time.perf_counter_ns()
            self.add_reading(pid, int(folder.name), now, int(ran) + int(waited), int(turns))

    def add_reading(self, pid: int, tid: int, moment: int, runnable: int, turns: int = 0) -> None:
        """Add how long a thread of a process had been runnable at a moment, ns, and how often it
        had been given a core."""
        self._owners[tid] = pid
        self._rows.setdefault(tid, []).append((moment, runnable, turns))

    def runnable_ns(self, tid: int, moments: I64) -> I64 | None:
        """How long a thread had been running or runnable at each moment (ns of
        ``perf_counter_ns``); None if it was not read twice."""
        rows = np.array(self._rows.get(tid, ()), np.int64).reshape(-1, 3)
        if len(rows) < 2:
            return None
        return np.interp(moments, rows[:, 0], rows[:, 1]).astype(np.int64)

    def threads_of(self, pid: int) -> list[int]:
        """The threads of a process that were read."""
        return [tid for tid, owner in self._owners.items() if owner == pid]

    def share_of(self, pids: Collection[int], begin: int = 0) -> float:
        """How much of one core the threads of some processes used or wanted since a moment."""
        tids = [tid for tid, owner in self._owners.items() if owner in pids]
        read = [self._rows_since(tid, begin) for tid in tids]
        grown = sum(rows[-1][1] - rows[0][1] for rows in read)
        return grown / max((rows[-1][0] - rows[0][0] for rows in read), default=1) if grown else 0.0

    def wakeups(self, tid: int, begin: int = 0) -> int:
        """How often a thread was given a core since a moment."""
        rows = self._rows_since(tid, begin)
        return rows[-1][2] - rows[0][2]

    def _rows_since(self, tid: int, begin: int) -> list[tuple[int, int, int]]:
        rows = self._rows.get(tid, [(0, 0, 0)])
        return [row for row in rows if row[0] >= begin] or rows[-1:]
