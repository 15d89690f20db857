"""The processes of a job: a root and its descendants.

A process belongs to the job once its parent does, and stays after its parent ends. A scan for new
ones takes place after the kernel reports a new process or thread (last word of ``/proc/loadavg``),
for at most a hundredth of the time: it costs 74 us with 101 processes, several milliseconds with
thousands. Missed: a process whose parent started and ended between two scans.

Each is read from three files of ``/proc/PID``. When a parent waits for a child, the kernel adds the
child's use to the parent's accounts: CPU time and faults separately, bytes to the parent's own. So
totals of counters include living members and the children that these have waited for, and never
fall, even if a process ended unwaited.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Final

from whyidle.machine.sources._open_file import OpenFile
from whyidle.model.live.telemetry import OWN_SHARE, Absent, Meter, Reading, make_meters

STATES: Final = {b"R": 1, b"S": 2, b"D": 3, b"I": 4, b"T": 5, b"t": 5, b"Z": 6, b"X": 7}
_OF_ONE: Final[tuple[Meter, ...]] = (
    *make_meters("process stat", 5.6,
        ("cpu_user_s", "s", "counter", "CPU time in the program's own code"),
        ("cpu_system_s", "s", "counter", "CPU time in the kernel for it"),
        ("faults_major", "1", "counter", "page faults that waited for storage"),
        ("io_wait_s", "s", "counter", "time blocked on storage"),
        ("state", "1", "gauge", "what the first thread does: 1 runs or waits for a core, 2 sleeps, "
         "3 waits uninterruptibly (mostly for storage), 4 idle, 5 stopped, 6 ended, 7 dead"),
        subject="process"),
    *make_meters("process statm", 1.9,
        ("memory_resident_bytes", "bytes", "gauge", "memory in RAM, shared memory included"),
        subject="process"),
    *make_meters("process io", 4.4,
        ("read_bytes", "bytes", "counter", "bytes fetched from storage, ended children's included"),
        ("read_calls_bytes", "bytes", "counter", "bytes read by calls, from storage, page cache, "
         "pipes and sockets, but not from mapped files; ended children's included"),
        subject="process"),
)  # fmt: skip
COUNTERS: Final = tuple(meter.id for meter in _OF_ONE if meter.kind == "counter")
_IO: Final = {"read_bytes": b"read_bytes:", "read_calls_bytes": b"rchar:"}


class Process:
    """One process's three files. ``waited`` is the use of its children that it has waited for."""

    __slots__ = ("_files", "waited")

    def __init__(self, proc: Path, pid: int) -> None:
        self._files = [OpenFile(f"{proc}/{pid}/{name}") for name in ("stat", "statm", "io")]
        self.waited: dict[str, float | int] = {}

    def read(self, tick_s: float, page: int, *, delays: bool) -> Reading | None:
        """Return its values; None after its end (a zombie's last values count)."""
        words = (self._files[0].read() or b"").rpartition(b")")[2].split()
        if len(words) < 40:
            return None
        stat = parse_stat(words, tick_s, delays=delays)
        self.waited = parse_waited(words, tick_s)
        statm = (self._files[1].read() or b"").split(None, 3)
        resident = statm[1] if len(statm) > 1 else b""
        stat["memory_resident_bytes"] = int(resident) * page if resident.isdigit() else None
        stat.update(parse_io(self._files[2].read()))
        return stat

    def close(self) -> None:
        """Close every file."""
        for file in self._files:
            file.close()


def parse_stat(words: list[bytes], tick_s: float, *, delays: bool) -> Reading:
    """Parse ``/proc/PID/stat`` from its third field (proc_pid_stat(5))."""
    return {
        "cpu_user_s": int(words[11]) * tick_s,
        "cpu_system_s": int(words[12]) * tick_s,
        "faults_major": int(words[9]),
        "io_wait_s": int(words[39]) * tick_s if delays else None,
        "state": STATES.get(words[0]),
    }


def parse_waited(words: list[bytes], tick_s: float) -> dict[str, float | int]:
    """Parse the fields cutime, cstime and cmajflt of the same."""
    return {
        "cpu_user_s": int(words[13]) * tick_s,
        "cpu_system_s": int(words[14]) * tick_s,
        "faults_major": int(words[10]),
    }


def parse_io(content: bytes | None) -> Reading:
    """Parse ``/proc/PID/io``, readable by the process's own user only."""
    words = (content or b"").split()
    values = dict(zip(words[::2], words[1::2], strict=False))
    return {
        name: int(values[word]) if word in values and values[word].isdigit() else None
        for name, word in _IO.items()
    }


MOST: Final = 256
"""processes that are read; more are only counted. Each keeps three files open, at most half of the
descriptors that this process may have"""
_HELD: Final = ("memory_resident_bytes",)
_NO_DELAYS: Final = Absent(
    "not collected by this kernel", "sysctl -w kernel.task_delayacct=1 (as administrator)"
)

METERS: Final[tuple[Meter, ...]] = (
    *_OF_ONE,
    *(
        meter
        for one in _OF_ONE
        if one.id in (*COUNTERS, *_HELD)
        for meter in make_meters(
            "totals",
            14.0,
            (f"job_{one.id}", one.unit, one.kind, f"over the job's processes: {one.meaning}"),
        )
    ),
    *make_meters(
        "totals",
        14.0,
        ("job_running", "1", "gauge", "processes whose first thread runs or waits for a core"),
        ("job_blocked", "1", "gauge", "processes whose first thread waits uninterruptibly"),
    ),
    *make_meters("scan", 74.0, ("job_processes", "1", "gauge", "processes of the job")),
)


class ProcessTree:
    """The process tree of a root."""

    def __init__(self, root: Path, pid: int) -> None:
        self._proc = root / "proc"
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._delays = _has_delay_accounting(self._proc)
        self._parents: dict[int, int] = {}
        self._members: dict[int, Process] = {}
        self._totals: dict[str, float | int] = {}
        self._most = min(MOST, _descriptor_limit() // 6)
        self._born = b""
        self._next_scan_ns = 0
        self.left_out = 0
        absent = () if self._delays else ("io_wait_s", "job_io_wait_s")
        self.missing: dict[str, Absent] = dict.fromkeys(absent, _NO_DELAYS)
        if pid:
            self._add_process(pid)
            self._parents[pid] = 0

    def read(self, into: Reading, born: bytes) -> None:
        """Add every process's values and the totals. ``born`` changes with every started process
        (last word of ``/proc/loadavg``); empty if unknown."""
        if not born or born != self._born:
            self._find_processes(born)
        states: list[object] = []
        sums: dict[str, float | int] = {}
        for pid, process in list(self._members.items()):
            values = process.read(self._tick_s, self._page, delays=self._delays)
            if values is None:
                self._remove_process(pid)
                continue
            suffix = f"@pid{pid}"
            for name, value in values.items():
                into[name + suffix] = value
                if value is not None:
                    sums[name] = sums.get(name, 0) + value
            for name, amount in process.waited.items():
                sums[name] += amount
            states.append(values["state"])
        self._add_totals(into, sums, states)

    def _add_totals(
        self, into: Reading, sums: dict[str, float | int], states: list[object]
    ) -> None:
        for name in COUNTERS:
            if name in sums:
                self._totals[name] = max(sums[name], self._totals.get(name, 0))
            into[f"job_{name}"] = self._totals.get(name)
        for name in _HELD:
            into[f"job_{name}"] = sums.get(name, 0)
        into["job_processes"] = len(states) + self.left_out
        into["job_running"] = states.count(1)
        into["job_blocked"] = states.count(3)

    def _find_processes(self, born: bytes) -> None:
        began = time.perf_counter_ns()
        if began < self._next_scan_ns:
            return
        self._born = born
        try:
            alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208
        except OSError:
            return
        for pid in self._parents.keys() - alive:
            del self._parents[pid]
        for pid in alive - self._parents.keys():
            self._parents[pid] = self._parent_pid(pid)
        self._add_children()
        elapsed = time.perf_counter_ns() - began
        self._next_scan_ns = began + int(elapsed / OWN_SHARE)

    def _parent_pid(self, pid: int) -> int:
        file = OpenFile(f"{self._proc}/{pid}/stat")
        words = (file.read() or b"").rpartition(b")")[2].split(None, 2)
        file.close()
        return int(words[1]) if len(words) > 1 else 0

    def _add_children(self) -> None:
        while joining := [
            pid
            for pid, parent in self._parents.items()
            if parent in self._members and pid not in self._members
        ]:
            self.left_out = max(0, len(self._members) + len(joining) - self._most)
            if len(self._members) >= self._most:
                return
            for pid in joining[: self._most - len(self._members)]:
                self._add_process(pid)

    def _add_process(self, pid: int) -> None:
        self._members[pid] = Process(self._proc, pid)

    def _remove_process(self, pid: int) -> None:
        self._members.pop(pid).close()
        self._parents.pop(pid, None)

    def close(self) -> None:
        """Close every file."""
        for process in self._members.values():
            process.close()
        self._members.clear()


def _descriptor_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 6 * MOST if soft == resource.RLIM_INFINITY else soft


def _has_delay_accounting(proc: Path) -> bool:
    file = OpenFile(proc / "sys/kernel/task_delayacct")
    content = (file.read() or b"").strip()
    file.close()
    return content == b"1"
