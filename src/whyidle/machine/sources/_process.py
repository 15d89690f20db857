"""One process of a job, from three files of ``/proc/PID``, on Linux. When a parent waits for a
child, the kernel adds the child's use to the parent's accounts: CPU time and faults separately,
bytes to the parent's own. So a job's totals include processes that started and ended between two
reads."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whyidle.machine.sources._open_file import OpenFile
from whyidle.model.live.telemetry import Meter, Reading, make_meters

STATES: Final = {b"R": 1, b"S": 2, b"D": 3, b"I": 4, b"T": 5, b"t": 5, b"Z": 6, b"X": 7}
METERS: Final[tuple[Meter, ...]] = (
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
COUNTERS: Final = tuple(meter.id for meter in METERS if meter.kind == "counter")
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
