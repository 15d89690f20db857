"""Looks at this machine while the server runs: its last hour, its metrics, and its alerts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

from whyidle.machine.alerts.alert_watch import AlertWatch, read_mutes
from whyidle.machine.alerts.rule_file import AlertSettings
from whyidle.machine.watch.alert_routes import open_routes
from whyidle.machine.watch.machine_watch import MachineWatch
from whyidle.model.diagnosis import Document
from whyidle.model.documents.watch_document import GpuState, WatchedMachine
from whyidle.model.live.alert import AlertLine, Event, Notice
from whyidle.model.live.metric_series import Metric, SeriesBuilder
from whyidle.store.atomic_write import write_atomic

EVERY_S: Final = 2.0
MINUTES: Final = 60
WASTED: Final[tuple[GpuState, ...]] = ("idle-held", "idle-reserved", "stalled")
"""states in which somebody holds a GPU that does nothing"""
MOST_LINES: Final = 1000
"""alerts of the history that are kept in memory; the file keeps all"""


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

    def __init__(self, settings: AlertSettings, mutes: Path, history: Path) -> None:
        self.settings, self._mutes, self._history = settings, mutes, history
        self.machine: WatchedMachine | None = None
        self.metrics: Sequence[Metric] = ()
        self.firing: list[AlertLine] = []
        self._strips: dict[str, deque[tuple[int, str, float | None]]] = {}
        self._known: dict[str, Notice] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="whyidle-machine", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._alerts = AlertWatch(
            self.settings, self._mutes, open_routes(self.settings.route), keeper="serve"
        )
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    def _run_loop(self) -> None:
        series = SeriesBuilder()
        with closing(MachineWatch()) as watch, closing(self._alerts):
            watch.look()  # the first knows no rates
            while not self._stop.wait(1.0 if self.machine is None else EVERY_S):
                self.machine = machine = watch.look()
                self.metrics = metrics = series.add_look(machine)
                self._add_to_strips(machine)
                delivery = self._alerts.add_look(machine, metrics)
                if delivery is not None:
                    self._note_firing(delivery.firing)

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

    def mutes(self) -> dict[str, float]:
        """Muted rules and alerts, and the Unix time at which each mute ends."""
        return read_mutes(self._mutes)

    def change_mute(self, name: str, until: float | None) -> None:
        """Mute a rule or an alert until a Unix time; None ends the mute.

        Raises:
            OSError: the store cannot be written.
        """
        mutes = self.mutes()
        mutes.pop(name, None)
        if until is not None:
            mutes[name] = until
        self._mutes.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self._mutes, msgspec.json.encode(mutes))

    def history(self) -> list[AlertLine]:
        """What fired and resolved, the latest first; lines that were cut off are left out."""
        try:
            lines = self._history.read_bytes().splitlines()[-MOST_LINES:]
        except OSError:
            return []
        parsed = (_parse_line(line) for line in reversed(lines))
        return [line for line in parsed if line is not None]

    def _note_firing(self, firing: Sequence[Notice]) -> None:
        """Write what began and what ended to the history, also of what is muted."""
        now = {one.key: one for one in firing}
        begun = [_as_line(one, "fires") for key, one in now.items() if key not in self._known]
        ended = [_as_line(one, "resolves") for key, one in self._known.items() if key not in now]
        self._known, self.firing = now, [_as_line(one, "fires") for one in firing]
        if begun or ended:
            content = b"".join(msgspec.json.encode(line) + b"\n" for line in (*begun, *ended))
            try:
                with self._history.open("ab") as file:
                    file.write(content)
            except OSError:
                return  # a full disk; what fires is shown all the same


def _as_line(notice: Notice, event: Event) -> AlertLine:
    when = time.time() if event == "resolves" else notice.when
    return AlertLine.from_notice(replace(notice, event=event, when=when))


def _parse_line(line: bytes) -> AlertLine | None:
    try:
        return msgspec.json.decode(line, type=AlertLine)
    except msgspec.DecodeError:
        return None


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
