"""What can be seen of one job from outside, over the last minute, for suspicions to judge."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyidle import catalog
from whyidle.errors import WhyidleError
from whyidle.machine.sources._kernel_waits import wait_of
from whyidle.machine.watch.gpu_history import WINDOW_S, GpuHistory, mean_of
from whyidle.model.live.suspicion import JobView
from whyidle.model.live.telemetry import Reader, Reading, Target

_SUMMED = (
    *("job_cpu_user_s", "job_cpu_system_s", "job_faults_major", "job_memory_resident_bytes"),
    *("job_running", "job_processes", "job_io_wait_s", "job_blocked"),
)


@dataclass(frozen=True, slots=True)
class _Look:
    when_s: float
    host: Reading
    thread_s: float | None  # CPU time of the first thread of each holder, the largest growth
    queued_s: float | None  # time that it waited for a core, the largest growth
    threads: dict[int, tuple[int, int]]
    swap_bytes: int | None
    waits: dict[int, str | None]  # what the first thread of each process waits for
    holders: frozenset[int]


class JobObservation:
    """Looks at one job again and again. ``unread`` says what could not be read, and why."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._readers: dict[int, Reader] = {}
        self._looks: deque[_Look] = deque()
        self._began_s = time.monotonic()
        self.unread: list[str] = []

    def look(self, roots: Sequence[int], pids: Iterable[int]) -> None:
        """Read the process trees below ``roots``, and the threads of ``pids``."""
        now = time.monotonic()
        host = self._read_trees(roots)
        holders = frozenset(pids)
        threads, swap = self._read_threads(holders)
        # launchers above the holders wait for these, whatever happens
        below = {int(name.partition("@pid")[2]) for name in host if "@pid" in name} - set(roots)
        waits = {n: wait_of(self._root / f"proc/{n}/task/{n}") for n in below | holders}
        before = self._looks[-1] if self._looks else None
        known = before.threads if before is not None else {}
        both = [(known[pid], times) for pid, times in threads.items() if pid in known]
        ran, queued = (
            max((after[i] - first[i] for first, after in both), default=None) for i in (0, 1)
        )
        thread_s = None if ran is None else ran / 1e9
        queued_s = None if queued is None else queued / 1e9
        self._looks.append(_Look(now, host, thread_s, queued_s, threads, swap, waits, holders))
        while self._looks[0].when_s < now - WINDOW_S:
            self._looks.popleft()

    def _read_trees(self, roots: Sequence[int]) -> Reading:
        host = catalog.plugin_module("sources", "host")
        for pid in self._readers.keys() - set(roots):
            self._readers.pop(pid).close()
        total: Reading = {}
        # of more, process trees are counted only
        for pid in roots[:16]:
            try:
                reader = self._readers.get(pid) or host.open(Target(pid=pid, root=self._root))
            except WhyidleError:
                continue  # it has ended
            self._readers[pid] = reader
            reading = reader.read()
            for name in _SUMMED:
                if (value := reading.get(name)) is not None:
                    total[name] = (total.get(name) or 0) + value
            kept = {k: v for k, v in reading.items() if "@" not in k or k.startswith("cpu_")}
            total = {**kept, **total}
        return total

    def _read_threads(self, pids: Iterable[int]) -> tuple[dict[int, tuple[int, int]], int | None]:
        threads: dict[int, tuple[int, int]] = {}
        swapped: list[int] = []
        for pid in pids:
            folder = self._root / f"proc/{pid}"
            try:
                # of the first thread, which trains in nearly every framework
                ran = (folder / f"task/{pid}/schedstat").read_bytes().split()
                threads[pid] = int(ran[0]), int(ran[1])
                status = (folder / "status").read_bytes().partition(b"VmSwap:")[2].split()
                swapped.append(int(status[0]) * 1024 if status else 0)
            except (OSError, ValueError, IndexError):
                continue
        return threads, sum(swapped) if swapped else None

    @property
    def cores_used(self) -> float | None:
        """CPU time per second over the window."""
        user, system = self._rate("job_cpu_user_s"), self._rate("job_cpu_system_s")
        return None if user is None or system is None else user + system

    @property
    def memory_bytes(self) -> int | None:
        """Resident memory of the job."""
        value = self._looks[-1].host.get("job_memory_resident_bytes") if self._looks else None
        return None if value is None else int(value)

    def view(
        self, gpus: Sequence[GpuHistory], held: int | None, age_s: float | None,
        since_step_s: float | None,
    ) -> JobView:  # fmt: skip
        """The job over the window, with the histories of its GPUs and the memory it holds there."""
        last = self._looks[-1] if self._looks else None
        host = last.host if last else {}
        window = last.when_s - self._looks[0].when_s if last else 0.0
        return JobView(
            window_s=window,
            age_s=age_s,
            **_gpu_view(gpus),
            gpu_memory_bytes=held,
            cores_used=self.cores_used,
            cores_allowed=host.get("cores_effective") or host.get("cores_allowed"),
            busiest_thread=_share(window, [look.thread_s for look in self._looks]),
            queued=_share(window, [look.queued_s for look in self._looks]),
            threads_ready=mean_of(look.host.get("job_running") for look in self._looks),
            blocked=mean_of(min(1.0, n) for n in self._values("job_blocked")),
            io_wait=self._rate("job_io_wait_s"),
            throttled=self._throttled_share(),
            pressure_io=host.get("pressure_io_some_ratio"),
            faults_per_s=self._rate("job_faults_major"),
            swap_bytes=last.swap_bytes if last else None,
            since_step_s=since_step_s,
            **self._count_workers(window),
            **self._find_wait(),
        )

    def _count_workers(self, window: float) -> dict[str, Any]:
        """Processes that hold no GPU and were there in all looks, by their use of a core."""
        if not window:
            return {}
        first, last = self._looks[0], self._looks[-1]
        used = [
            sum((one.host.get(f"{name}@pid{pid}") or 0) * sign
                for one, sign in ((last, 1), (first, -1))
                for name in ("cpu_user_s", "cpu_system_s")) / window
            for pid in first.waits.keys() & last.waits.keys() - last.holders
        ]  # fmt: skip
        busy, idle = sum(one >= 0.9 for one in used), sum(one < 0.02 for one in used)
        return {"workers": len(used), "workers_busy": busy, "workers_idle": idle}

    def _find_wait(self) -> dict[str, Any]:
        """What the holders wait for most; where that is only their workers, what these wait for."""
        held = [{look.waits.get(pid) for pid in look.holders} for look in self._looks]
        below = [{look.waits[n] for n in look.waits.keys() - look.holders} for look in self._looks]
        word, share = _commonest(held)
        if word in ("a message", "a lock"):
            other, often = _commonest([words - {"a message", "a lock"} for words in below])
            word, share = (other, often) if often >= 0.5 else (word, share)
        return {"waits_for": word, "waits_share": share}

    def _values(self, signal: str) -> list[float]:
        return [v for look in self._looks if (v := look.host.get(signal)) is not None]

    def _rate(self, signal: str) -> float | None:
        rows = [
            (look.when_s, v) for look in self._looks if (v := look.host.get(signal)) is not None
        ]
        if len(rows) < 2 or rows[-1][0] <= rows[0][0]:
            return None
        return max(0.0, rows[-1][1] - rows[0][1]) / (rows[-1][0] - rows[0][0])

    def _throttled_share(self) -> float | None:
        periods, throttled = self._rate("quota_periods"), self._rate("throttled_periods")
        return throttled / periods if periods and throttled is not None else None

    def close(self) -> None:
        """Close the readers."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()


def _commonest(looks: Sequence[Set[str | None]]) -> tuple[str | None, float]:
    """The word that most looks hold, and the share of these."""
    counts = Counter(word for words in looks for word in words if word)
    word, count = next(iter(counts.most_common(1)), (None, 0))
    return word, count / max(len(looks), 1)


def _share(window: float, grown: Sequence[float | None]) -> float | None:
    known = [seconds for seconds in grown if seconds is not None]
    return min(1.0, sum(known) / window) if known and window > 0 else None


def _gpu_view(gpus: Sequence[GpuHistory]) -> dict[str, Any]:
    latest = [gpu.latest for gpu in gpus]
    slowed = [gpu.slowed_by_hardware() for gpu in gpus]
    return {
        "gpu_busy": mean_of(gpu.mean("busy_ratio") for gpu in gpus),
        "gpu_busy_max": max(
            (b for g in gpus if (b := g.highest("busy_ratio")) is not None), default=None
        ),
        "power_ratio": mean_of(
            _ratio(gpu.mean("power_w"), one.get("power_limit_w"))
            for gpu, one in zip(gpus, latest, strict=True)
        ),
        "bus_bytes_per_s": mean_of(gpu.bus_bytes_per_s() for gpu in gpus),
        "held_by_heat": mean_of(gpu.growth_per_s("held_by_heat_s") for gpu in gpus),
        "held_by_power": mean_of(gpu.growth_per_s("held_by_power_s") for gpu in gpus),
        "hardware_slowdown": any(slowed) if any(one is not None for one in slowed) else None,
        "power_limit_ratio": mean_of(
            _ratio(one.get("power_limit_w"), one.get("power_limit_default_w")) for one in latest
        ),
    }


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
