"""The machine around a job: cores, memory, disks, network, on Linux."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from whyidle.machine.sources._open_file import (
    OpenFile,
    explain_unreadable,
    parse_numbers,
    read_text,
)
from whyidle.model.live.telemetry import Absent, Meter, Reading, make_meters

SECTOR = 512
"""``/proc/diskstats`` counts sectors of 512 bytes for every disk"""


_CORES = make_meters(
    "cores",
    9.8,
    ("machine_cpu_user_s", "s", "counter", "CPU time of all programs on all cores"),
    ("machine_cpu_system_s", "s", "counter", "CPU time in the kernel, interrupts included"),
    ("machine_cpu_idle_s", "s", "counter", "time that cores had nothing to do"),
    ("machine_io_wait_s", "s", "counter", "of it, time that a task waited for storage"),
    ("machine_cpu_stolen_s", "s", "counter", "time given to other virtual machines (steal)"),
    ("tasks_blocked", "1", "gauge", "tasks on the machine that wait for storage"),
)
_QUEUE = make_meters(
    "queue",
    1.8,
    ("tasks_runnable", "1", "gauge", "tasks on the machine that run or wait for a core"),
    ("load_1min", "1", "gauge", "tasks that run or wait uninterruptibly, mean over a minute"),
)
_MEMORY = make_meters(
    "memory",
    14.2,
    ("machine_memory_bytes", "bytes", "gauge", "memory of the machine"),
    ("machine_memory_available_bytes", "bytes", "gauge", "memory available without swapping"),
    ("page_cache_bytes", "bytes", "gauge", "memory that holds content of files"),
    ("shared_memory_bytes", "bytes", "gauge", "memory shared between processes, /dev/shm included"),
    ("dirty_bytes", "bytes", "gauge", "memory that waits to be written to storage"),
    ("swap_used_bytes", "bytes", "gauge", "memory moved out to swap"),
)
_PAGING = make_meters(
    "paging",
    22.7,
    ("swap_in_pages", "1", "counter", "pages read back from swap"),
    ("swap_out_pages", "1", "counter", "pages moved out to swap"),
    ("machine_faults_major", "1", "counter", "page faults that waited for storage"),
    ("machine_out_of_memory_kills", "1", "counter", "processes killed for lack of memory"),
)
_SHM = make_meters(
    "shm",
    2.2,
    ("shm_used_bytes", "bytes", "gauge", "used space in /dev/shm, such as batches of workers"),
    ("shm_free_bytes", "bytes", "gauge", "free space in /dev/shm"),
)
_DISKS = make_meters(
    "disks",
    13.3,
    ("disk_read_bytes", "bytes", "counter", "bytes read from the machine's disks"),
    ("disk_write_bytes", "bytes", "counter", "bytes written to the machine's disks"),
    ("disk_reads", "1", "counter", "reads from the machine's disks"),
    ("disk_busy_s", "s", "counter", "time that disks had work, summed over disks"),
)
_NETWORK = make_meters(
    "network",
    9.4,
    ("network_received_bytes", "bytes", "counter", "bytes received without loopback"),
    ("network_sent_bytes", "bytes", "counter", "bytes sent without loopback"),
)
METERS: Final = _CORES + _QUEUE + _MEMORY + _PAGING + _SHM + _DISKS + _NETWORK
_MEMORY_LINES: Final = (
    *(b"MemTotal:", b"MemAvailable:", b"Cached:", b"Buffers:"),
    *(b"Shmem:", b"Dirty:", b"SwapTotal:", b"SwapFree:"),
)
_PAGED: Final = {
    b"pswpin ": "swap_in_pages",
    b"pswpout ": "swap_out_pages",
    b"pgmajfault ": "machine_faults_major",
    b"oom_kill ": "machine_out_of_memory_kills",
}
_GROUPS: Final = {
    "stat": _CORES,
    "loadavg": _QUEUE,
    "meminfo": _MEMORY,
    "vmstat": _PAGING,
    "diskstats": _DISKS,
}


_MAY_FALL: Final = ("machine_cpu_idle_s", "machine_io_wait_s")
"""idle time may decrease a little, as the kernel sums it per core without a lock (proc_stat(5))"""


class Machine:
    """Reads the files of ``/proc`` about the whole machine."""

    def __init__(self, root: Path, pid: int) -> None:
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._shm = root / "dev/shm"
        disks = _devices_in(root / "sys/block")  # without loops, RAM disks, stacks of other disks
        self._disks = {disk.name.encode() for disk in disks if read_text(disk / "size") != "0"}
        self._files = {name: OpenFile(root / "proc" / name) for name in _GROUPS}
        own = root / f"proc/{pid or 'self'}/net/dev"  # the job's network, if it is in a container
        self._network = OpenFile(own)
        links = _devices_in(root / "sys/class/net")  # bridges and tunnels forward the same bytes
        self._links = {link.name.encode() for link in links}
        self._idle: Reading = {}
        self.missing: dict[str, Absent] = {}
        for name, group in _GROUPS.items():
            if not self._files[name].is_open:
                self._note_missing(group, explain_unreadable(root / "proc" / name))
        if not self._network.is_open:
            self._note_missing(_NETWORK, explain_unreadable(own))
        if not self._shm.is_dir():
            self._note_missing(_SHM, Absent("this system has no /dev/shm"))

    def _note_missing(self, group: tuple[Meter, ...], absent: Absent) -> None:
        self.missing.update({meter.id: absent for meter in group})

    def read(self, into: Reading) -> bytes:
        """Add every value; return the last started task's id, empty if unknown."""
        cores = parse_cores(self._files["stat"].read(1 << 20), self._tick_s)
        for name in _MAY_FALL:
            value, before = cores[name], self._idle.get(name)
            cores[name] = self._idle[name] = before if value is None else max(value, before or 0)
        into.update(cores)
        load = (self._files["loadavg"].read() or b"").split()
        is_readable = len(load) > 4
        into["tasks_runnable"] = int(load[3].partition(b"/")[0]) if is_readable else None
        into["load_1min"] = float(load[0]) if is_readable else None
        into.update(parse_memory(self._files["meminfo"].read()))
        paging = parse_numbers(self._files["vmstat"].read(), *_PAGED)
        into.update(zip(_PAGED.values(), map(paging.get, _PAGED), strict=True))
        into.update(_shared_memory(self._shm))
        into.update(parse_disks(self._files["diskstats"].read(), self._disks))
        into.update(parse_network(self._network.read(), self._links))
        return load[4] if is_readable else b""

    def close(self) -> None:
        """Close every file."""
        for file in (*self._files.values(), self._network):
            file.close()


def parse_cores(content: bytes | None, tick_s: float) -> Reading:
    """Parse ``/proc/stat``: the line of all cores, and ``procs_blocked``."""
    words = (content or b"").partition(b"\n")[0].split()
    into: Reading = dict.fromkeys(meter.id for meter in _CORES)
    if content is None or len(words) < 9:
        return into
    user, nice, system, idle, waits, irq, soft, stolen = (int(word) for word in words[1:9])
    into["machine_cpu_user_s"] = (user + nice) * tick_s
    into["machine_cpu_system_s"] = (system + irq + soft) * tick_s
    into["machine_cpu_idle_s"] = (idle + waits) * tick_s
    into["machine_io_wait_s"] = waits * tick_s
    into["machine_cpu_stolen_s"] = stolen * tick_s
    tail = content.rpartition(b"procs_blocked ")[2].split(None, 1)
    into["tasks_blocked"] = int(tail[0]) if tail and tail[0].isdigit() else None
    return into


def parse_memory(content: bytes | None) -> Reading:
    """Parse ``/proc/meminfo``, in KiB."""
    kib = parse_numbers(content, *_MEMORY_LINES)

    def sum_lines(*names: bytes) -> int | None:
        return sum(kib[name] for name in names) << 10 if all(n in kib for n in names) else None

    total, free = kib.get(b"SwapTotal:"), kib.get(b"SwapFree:")
    return {
        "machine_memory_bytes": sum_lines(b"MemTotal:"),
        "machine_memory_available_bytes": sum_lines(b"MemAvailable:"),
        "page_cache_bytes": sum_lines(b"Cached:", b"Buffers:"),
        "shared_memory_bytes": sum_lines(b"Shmem:"),
        "dirty_bytes": sum_lines(b"Dirty:"),
        "swap_used_bytes": None if total is None or free is None else (total - free) << 10,
    }


def parse_disks(content: bytes | None, disks: set[bytes]) -> Reading:
    """Parse ``/proc/diskstats`` for whole disks, as partitions would count twice."""
    lines = [line.split(None, 13) for line in (content or b"").splitlines()]
    rows = [words for words in lines if len(words) > 12 and words[2] in disks]
    if not rows:
        return dict.fromkeys(meter.id for meter in _DISKS)
    return {
        "disk_read_bytes": sum(int(words[5]) for words in rows) * SECTOR,
        "disk_write_bytes": sum(int(words[9]) for words in rows) * SECTOR,
        "disk_reads": sum(int(words[3]) for words in rows),
        "disk_busy_s": sum(int(words[12]) for words in rows) / 1e3,
    }


def parse_network(content: bytes | None, links: set[bytes]) -> Reading:
    """Parse ``/proc/PID/net/dev`` for physical links if known, else for all but loopback."""
    rows = {}
    for line in (content or b"").splitlines()[2:]:
        name, _, numbers = line.partition(b":")
        words = numbers.split()
        if len(words) > 8:
            rows[name.strip()] = int(words[0]), int(words[8])
    links = (rows.keys() & links) or (rows.keys() - {b"lo"})
    chosen = [rows[name] for name in links]
    return {
        "network_received_bytes": sum(counts[0] for counts in chosen) if chosen else None,
        "network_sent_bytes": sum(counts[1] for counts in chosen) if chosen else None,
    }


def _shared_memory(folder: Path) -> Reading:
    try:
        status = os.statvfs(folder)
    except OSError:
        return dict.fromkeys(meter.id for meter in _SHM)
    return {
        "shm_used_bytes": (status.f_blocks - status.f_bfree) * status.f_frsize,
        "shm_free_bytes": status.f_bavail * status.f_frsize,
    }


def _devices_in(folder: Path) -> list[Path]:
    return [entry for entry in folder.glob("*") if (entry / "device").exists()]
