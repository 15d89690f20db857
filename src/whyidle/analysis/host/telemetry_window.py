"""Telemetry of the host and GPUs while the steps in scope ran. Reads come about every half second:
a gauge is the mean of its reads in the window, a counter's growth is interpolated at the window's
ends, and unread signals are None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.intervals import Intervals
from whyidle.model.live.telemetry import Series, Telemetry, signal_key, split_key
from whyidle.model.process_facts import ProcessFacts
from whyidle.model.timeline import Timeline

LEAST_READS = 2
"""a counter needs two reads to show growth"""


class TelemetryWindow:
    """Telemetry over a window (ns on its clock), with the facts of the process to identify its
    GPU."""

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

    def part(self, low_ns: int, high_ns: int) -> TelemetryWindow:
        """Return the same over another window."""
        return TelemetryWindow(self.telemetry, low_ns, high_ns, self._process)

    def values_read(self, signal: str, subject: str = "") -> F64:
        """Return the values read in the window; between two reads, the one before it."""
        series = self._series_of(signal, subject)
        if series is None:
            return np.empty(0)
        low, high = np.searchsorted(series.time_ns, [self.low_ns, self.high_ns])
        return series.value[low:high] if high > low else series.value[max(low - 1, 0) : high]

    def read_intervals(self, signal: str, subject: str = "") -> tuple[I64, I64, F64]:
        """Return reads that cover the time since the previous one: (begin, end, value)."""
        series = self._series_of(signal, subject)
        if series is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        time = series.time_ns
        low, high = np.searchsorted(time, [self.low_ns, self.high_ns])
        ends = np.arange(low + 1, high)
        return time[ends - 1], time[ends], series.value[ends]

    def mean_value(self, signal: str, subject: str = "") -> float | None:
        """Return the mean of a gauge in the window."""
        values = self.values_read(signal, subject)
        return float(values.mean()) if len(values) else None

    def highest_value(self, signal: str, subject: str = "") -> float | None:
        """Return the highest read of a gauge in the window."""
        values = self.values_read(signal, subject)
        return float(values.max()) if len(values) else None

    def under_load(self, signal: str, gpu: str) -> float | None:
        """Return the highest read of a gauge while the GPU was busy, as idle ones lower their
        link."""
        series, busy = self._series_of(signal, gpu), self._series_of("busy_ratio", gpu)
        if series is None:
            return None
        low, high = np.searchsorted(series.time_ns, [self.low_ns, self.high_ns])
        if busy is not None and low == high:
            low = max(low - 1, 0)
        values = series.value[low:high]
        if busy is not None:
            before = np.searchsorted(busy.time_ns, series.time_ns[low:high], side="right")
            values = values[np.append(0.0, busy.value)[before] > 0.0]
        return float(values.max()) if len(values) else None

    def counter_growth(self, signal: str, subject: str = "") -> float | None:
        """Return how much a counter grew in the window."""
        series = self._series_of(signal, subject)
        if series is None or len(series.time_ns) < LEAST_READS:
            return None
        ends = np.interp([self.low_ns, self.high_ns], series.time_ns, series.value)
        return float(ends[1] - ends[0])

    def counter_rate(self, signal: str, subject: str = "") -> float | None:
        """Return a counter's growth per second; None if it fell, as counters that wrap do."""
        series, grown = self._series_of(signal, subject), self.counter_growth(signal, subject)
        if series is None or grown is None or grown < 0:
            return None
        length = min(self.high_ns, series.time_ns[-1]) - max(self.low_ns, series.time_ns[0])
        return float(grown / (length / 1e9)) if length > 0 else None

    def summed_rate(self, *signals: str) -> float | None:
        """Return the sum of several counters' rates; None where none was read."""
        rates = [rate for rate in map(self.counter_rate, signals) if rate is not None]
        return sum(rates) if rates else None

    @property
    def gpus(self) -> tuple[str, ...]:
        """Every GPU that was read, as subjects."""
        subjects = {split_key(name)[1].partition(".pid")[0] for name in self.telemetry.series}
        return tuple(sorted(name for name in subjects if name.startswith("gpu")))

    @property
    def own_gpus(self) -> tuple[str, ...]:
        """The GPUs of this process: by its id, else by its device number, else the only one.
        Process ids in a container differ from the driver's."""
        pid, memory = self._process.pid, self.telemetry.series_of("process_memory_bytes")
        processes = self.job_processes if pid is None else {pid}
        keys = {gpu: [f"{gpu}.pid{process}" for process in processes] for gpu in self.gpus}
        owned = {gpu: [key for key in names if key in memory] for gpu, names in keys.items()}
        used = [gpu for gpu, subjects in owned.items() if subjects]
        if used:
            return tuple(sorted(used, key=lambda gpu: -self._held_bytes(owned[gpu])))
        numbered = _numbered_gpu(self._process, self.gpus, self.telemetry.facts)
        if numbered is not None:
            return (numbered,)
        return self.gpus if len(self.gpus) == 1 else ()

    def _held_bytes(self, subjects: list[str]) -> float:
        return sum(self.mean_value("process_memory_bytes", subject) or 0.0 for subject in subjects)

    @property
    def exclusive_gpu(self) -> str | None:
        """The one GPU that this process has to itself, whose reads are its own."""
        own = self.own_gpus
        return own[0] if len(own) == 1 and len(self.memory_by_process(own[0])) <= 1 else None

    def memory_by_process(self, gpu: str) -> dict[int, float]:
        """Return the processes with memory of a GPU in the window -> mean bytes."""
        prefix = f"{gpu}.pid"
        memory = {}
        for subject in self.telemetry.series_of("process_memory_bytes"):
            mean = self.mean_value("process_memory_bytes", subject)
            if subject.startswith(prefix) and mean is not None:
                memory[int(subject.removeprefix(prefix))] = mean
        return memory

    @property
    def job_processes(self) -> frozenset[int]:
        """Every process of the job that was read at any time."""
        of_job = self.telemetry.series_of("cpu_user_s")
        return frozenset(int(name[3:]) for name in of_job if name.startswith("pid"))

    def _series_of(self, signal: str, subject: str) -> Series | None:
        return self.telemetry.series.get(signal_key(signal, subject))


def telemetry_of(timeline: Timeline, scope: Intervals) -> TelemetryWindow | None:
    """Return the telemetry of the steps in scope; None without any."""
    if timeline.telemetry is None or not len(scope):
        return None
    low, high = timeline.base_ns + int(scope.start[0]), timeline.base_ns + int(scope.end[-1])
    return TelemetryWindow(timeline.telemetry, low, high, timeline.process)


def _numbered_gpu(
    process: ProcessFacts, gpus: Sequence[str], facts: Mapping[str, str]
) -> str | None:
    """Return the GPU of ``gpus`` (as subject) that a process computes on by its own number and the
    GPUs' ``facts``; None where unknown. CUDA numbers the visible devices from 0, so
    ``CUDA_VISIBLE_DEVICES`` of the process, with indices or (cut) UUIDs, is read first."""
    environment = process.environment
    number, local_rank = process.device_index, environment.get("LOCAL_RANK", "")
    if number is None and local_rank.isdigit():  # scripts choose their device by it
        number = int(local_rank)
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if number is None or process.device == "cpu":
        return None
    if listed is None:
        return _single_gpu(
            gpu for gpu in gpus if facts.get(signal_key("cuda_ordinal", gpu)) == str(number)
        )
    words = [word.strip() for word in listed.split(",")]
    if len(words) == 1:  # the local rank may be any, but only this GPU is visible
        number = 0
    return _single_gpu(_gpus_named(words[number], gpus, facts)) if number < len(words) else None


def _gpus_named(word: str, gpus: Sequence[str], facts: Mapping[str, str]) -> list[str]:
    """GPUs by index or UUID; indices are the driver's, unless mixed cards are numbered by speed."""
    if not word.isdigit():
        return [
            gpu for gpu in gpus if word and facts.get(signal_key("uuid", gpu), "").startswith(word)
        ]
    if facts.get("cuda_order_doubt"):
        return []
    return [gpu for gpu in gpus if gpu.partition(".")[0] == f"gpu{word}"]


def _single_gpu(gpus: Iterable[str]) -> str | None:
    listed = list(gpus)
    return listed[0] if len(listed) == 1 else None
