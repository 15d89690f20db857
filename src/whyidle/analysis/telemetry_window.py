"""What was read from outside the process while the steps in scope ran: host and GPUs.

Reads come every half second or so and steps do not wait for them: a gauge is the mean of its reads
in the window, a counter's growth is interpolated at the window's ends. What was not read is None.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.gpu_ordinals import numbered_gpu
from whyidle.analysis.intervals import Intervals
from whyidle.model.process_facts import ProcessFacts
from whyidle.model.telemetry import Series, Telemetry, signal_key, split_key
from whyidle.model.timeline import Timeline

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

LEAST_READS = 2
"""a counter that was read once has not been seen to grow"""


class TelemetryWindow:
    """Telemetry over a window of a recording.

    Args:
        telemetry: what was read.
        low_ns, high_ns: the window, on the telemetry's clock.
        process: what the process said of itself: ``pid``, ``device_index`` and ``environment``
            tell its GPU.
    """

    def __init__(
        self, telemetry: Telemetry, low_ns: int, high_ns: int, process: ProcessFacts
    ) -> None:
        self.telemetry = telemetry
        self.low_ns, self.high_ns = low_ns, high_ns
        self._process = process

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return (self.high_ns - self.low_ns) / 1e9

    def values_read(self, signal: str, subject: str = "") -> F64:
        """Values read in the window; a window between two reads has the one before it."""
        series = self._series_of(signal, subject)
        if series is None:
            return np.empty(0)
        low, high = np.searchsorted(series.time_ns, [self.low_ns, self.high_ns])
        return series.value[low:high] if high > low else series.value[max(low - 1, 0) : high]

    def read_intervals(self, signal: str, subject: str = "") -> tuple[I64, I64, F64]:
        """Reads in the window that tell of the time since the one before: (begin, end, value)."""
        series = self._series_of(signal, subject)
        if series is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        time = series.time_ns
        low, high = np.searchsorted(time, [self.low_ns, self.high_ns])
        ends = np.arange(low + 1, high)
        return time[ends - 1], time[ends], series.value[ends]

    def mean_value(self, signal: str, subject: str = "") -> float | None:
        """The mean of a gauge in the window."""
        found = self.values_read(signal, subject)
        return float(found.mean()) if len(found) else None

    def highest_value(self, signal: str, subject: str = "") -> float | None:
        """The highest read of a gauge in the window."""
        found = self.values_read(signal, subject)
        return float(found.max()) if len(found) else None

    def under_load(self, signal: str, gpu: str) -> float | None:
        """The highest read of a gauge of a GPU that was busy: idle ones lower their link. Where
        nobody read whether it was, reads of the window itself count."""
        series, busy = self._series_of(signal, gpu), self._series_of("busy_ratio", gpu)
        if series is None:
            return None
        low, high = np.searchsorted(series.time_ns, [self.low_ns, self.high_ns])
        if busy is not None:
            low = max(low - 1, 0) if low == high else low
            before = np.searchsorted(busy.time_ns, series.time_ns[low:high], side="right")
            found = series.value[low:high][np.append(0.0, busy.value)[before] > 0.0]
        else:
            found = series.value[low:high]
        return float(found.max()) if len(found) else None

    def counter_growth(self, signal: str, subject: str = "") -> float | None:
        """How much a counter grew in the window."""
        series = self._series_of(signal, subject)
        if series is None or len(series.time_ns) < LEAST_READS:
            return None
        ends = np.interp([self.low_ns, self.high_ns], series.time_ns, series.value)
        return float(ends[1] - ends[0])

    def counter_rate(self, signal: str, subject: str = "") -> float | None:
        """How much a counter grew per second of the window that was read; None where it fell, as
        counters do that begin anew when they are full."""
        series, grown = self._series_of(signal, subject), self.counter_growth(signal, subject)
        if series is None or grown is None or grown < 0:
            return None
        seen = min(self.high_ns, series.time_ns[-1]) - max(self.low_ns, series.time_ns[0])
        return float(grown / (seen / 1e9)) if seen > 0 else None

    def summed_rate(self, *signals: str) -> float | None:
        """Rates of several counters together; None where none was read."""
        rates = [rate for rate in map(self.counter_rate, signals) if rate is not None]
        return sum(rates) if rates else None

    @property
    def gpus(self) -> tuple[str, ...]:
        """Every GPU that was read, as subjects."""
        found = {split_key(name)[1].partition(".pid")[0] for name in self.telemetry.series}
        return tuple(sorted(name for name in found if name.startswith("gpu")))

    @property
    def own_gpus(self) -> tuple[str, ...]:
        """The GPUs of this process: where its id was seen, the one that it has most memory of
        first, else the one that it computes on by its own number, else the only one. Ids of a
        container are others than the driver's."""
        pid, held = self._process.pid, self.telemetry.series_of("process_memory_bytes")
        mine = self.job_processes if pid is None else {pid}  # of a command without a known process
        owned = {gpu: [f"{gpu}.pid{one}" for one in mine if f"{gpu}.pid{one}" in held]
                 for gpu in self.gpus}  # fmt: skip
        seen = [gpu for gpu, subjects in owned.items() if subjects]
        if seen:
            return tuple(sorted(seen, key=lambda gpu: -self._held_bytes(owned[gpu])))
        numbered = numbered_gpu(self._process, self.gpus, self.telemetry.facts)
        if numbered is not None:
            return (numbered,)
        return self.gpus if len(self.gpus) == 1 else ()

    def _held_bytes(self, subjects: list[str]) -> float:
        return sum(self.mean_value("process_memory_bytes", subject) or 0.0 for subject in subjects)

    @property
    def exclusive_gpu(self) -> str | None:
        """The one GPU of this process, if it has it to itself: what is read of such a GPU is this
        process's doing. Ids of a container are others than the driver's, but one is one."""
        own = self.own_gpus
        return own[0] if len(own) == 1 and len(self.memory_by_process(own[0])) <= 1 else None

    def memory_by_process(self, gpu: str) -> dict[int, float]:
        """Processes that held memory of a GPU in the window -> the mean of the bytes."""
        prefix = f"{gpu}.pid"
        found = {}
        for subject in self.telemetry.series_of("process_memory_bytes"):
            mean = self.mean_value("process_memory_bytes", subject)
            if subject.startswith(prefix) and mean is not None:
                found[int(subject.removeprefix(prefix))] = mean
        return found

    @property
    def job_processes(self) -> frozenset[int]:
        """Every process of the job that was seen, at any time."""
        of_job = self.telemetry.series_of("cpu_user_s")
        return frozenset(int(name[3:]) for name in of_job if name.startswith("pid"))

    def _series_of(self, signal: str, subject: str) -> Series | None:
        return self.telemetry.series.get(signal_key(signal, subject))


def outside_of(timeline: Timeline, scope: Intervals) -> TelemetryWindow | None:
    """What was read from outside during the steps in scope; None where nothing was."""
    if timeline.telemetry is None or not len(scope):
        return None
    low, high = timeline.base_ns + int(scope.start[0]), timeline.base_ns + int(scope.end[-1])
    return TelemetryWindow(timeline.telemetry, low, high, timeline.process)
