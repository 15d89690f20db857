"""What a read of telemetry costs: CPU time of each part of ``whyidle.sources``, and of the monitor.

    python bench/sources.py [READS]

Prints the median and the quartiles of CPU microseconds (``time.thread_time_ns``, whose own cost is
taken off) over READS reads in rounds spread over a few seconds, so that a busy neighbour shows as
spread and not as cost. A stand-in answers for NVML: those lines are our own part alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from emulator import fake_nvml
from whyidle.machine.sources import _control_group, _process_tree, host, nvml
from whyidle.machine.sources._control_group import GroupHierarchy
from whyidle.machine.sources._process_tree import parse_io, parse_stat, parse_waited
from whyidle.model.live.telemetry import Target
from whyidle.model.live.telemetry_lines import TelemetryReader, TelemetryWriter, read_telemetry
from whyidle.record.monitor import Monitor

ROOT = Path("/")
CHILDREN = 4


def cost(call, reads: int, pause_s: float = 0) -> tuple[float, float, float]:
    """Quartiles of a call's CPU microseconds."""
    now = time.thread_time_ns
    taken, nothing = [], []
    for number in range(reads):
        before = now()
        call()
        between = now()
        nothing.append(now() - between)
        taken.append(between - before)
        if pause_s or number % max(1, reads // 20) == 0:
            time.sleep(pause_s or 0.05)
    own = statistics.median(nothing)
    low, middle, high = statistics.quantiles(taken, n=4)
    return tuple((value - own) / 1e3 for value in (low, middle, high))


def show(name: str, call, reads: int, pause_s: float = 0) -> None:
    low, middle, high = cost(call, max(2, reads), pause_s)
    print(f"{name:58} {middle:8.1f} us   [{low:.1f}, {high:.1f}]", flush=True)


def parts(pid: int, reads: int) -> None:
    machine = host.Machine(ROOT)
    files = machine._files
    show("machine: /proc/stat", lambda: host.parse_cores(files["stat"].read(), 0.01), reads)
    show("machine: /proc/loadavg", lambda: files["loadavg"].read().split(), reads)
    show(
        "machine: /proc/meminfo",
        lambda: host.parse_memory(files["meminfo"].read()),
        reads,
    )
    show(
        "machine: /proc/vmstat",
        lambda: host.parse_numbers(files["vmstat"].read(), b"pgmajfault "),
        reads,
    )
    show("machine: /dev/shm", lambda: host._shared_memory(machine._shm), reads)
    show("machine: all", lambda: machine.read({}), reads)
    levels = GroupHierarchy(ROOT, pid)
    pressure, group = host.Pressure(ROOT, levels), _control_group.ControlGroup(levels, pid)
    show("pressure: all files", lambda: pressure.read({}), reads)
    show("group: affinity", lambda: _control_group._affinity_size(pid), reads)
    show("group: throttling", group._read_throttling, reads)
    show("group: memory", group._memory_now, reads)
    show("group: all", lambda: group.read({}), reads)


def processes(pid: int, reads: int) -> None:
    job = _process_tree.ProcessTree(ROOT, pid)
    job.read({}, b"")
    one = job._members[pid]

    def stat() -> None:
        words = one._files[0].read().rpartition(b")")[2].split()
        parse_stat(words, 0.01, delays=True)
        parse_waited(words, 0.01)

    show("process: stat", stat, reads)
    show("process: statm", lambda: one._files[1].read().split(None, 3), reads)
    show("process: io", lambda: parse_io(one._files[2].read()), reads)
    show(f"job of {len(job._members)}: no new process", lambda: job.read({}, b"same"), reads)

    def scan() -> None:
        job._next_scan_ns = 0
        job._find_processes(b"")

    show(f"job: scan of {len(psutil.pids())} processes", scan, reads)
    root = psutil.Process(pid)
    show("(psutil: children(recursive=True))", lambda: root.children(recursive=True), reads // 5)


def whole(pid: int, reads: int) -> None:
    reader = host.open(Target(pid=pid))
    show(f"host: whole read, job of {CHILDREN + 1}", reader.read, reads)
    show("the same, once in 0.1 s (caches gone cold)", reader.read, 50, 0.1)
    columns, reading = TelemetryWriter(), reader.read()
    show(
        f"encoding a row of {len(reading)} values",
        lambda: columns.row_lines("host", 0, reading),
        reads,
    )
    lines = TelemetryWriter().row_lines("host", 0, reading).splitlines(keepends=True)
    decoder = TelemetryReader()
    list(decoder.read_rows(lines))
    show("decoding it", lambda: list(decoder.read_rows(lines[1:])), reads)
    print(f"{'bytes of that row':58} {len(lines[1]):8}")
    reader.close()
    show("host: probe", host.probe, reads // 20)


def gpus(reads: int) -> None:
    nvml.probe()  # the first import takes 20 ms
    show("nvml: probe on this machine", nvml.probe, reads // 10)
    sys.modules["pynvml"] = fake_nvml.module([fake_nvml.training()])
    reader = nvml.open(Target())
    show("nvml: whole read of a GPU that answers at once", reader.read, reads)
    reader.close()
    del sys.modules["pynvml"]


def monitor(pid: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        watch = Monitor(Target(pid=pid), Path(folder) / "telemetry")
        watch.start_thread()
        time.sleep(8)
        watch.stop_thread()
        size = (Path(folder) / "telemetry").stat().st_size
        with (Path(folder) / "telemetry").open("rb") as lines:
            spent = read_telemetry(lines).series["monitor_cpu_s"]
    steady = (spent.value[-1] - spent.value[0]) / ((spent.time_ns[-1] - spent.time_ns[0]) / 1e9)
    print(f"{'monitor, share of a core once all is open':58} {steady:8.3%}")
    print(f"{'monitor, share of a core over 8 s, opening included':58} {watch.cpu_s / 8:8.3%}")
    print(f"{'monitor, stretch':58} {watch.period_stretch:8.2f}")
    print(f"{'monitor, bytes written in a second':58} {size / 8:8.0f}")


def main() -> None:
    reads = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    code = f"import os\n[os.fork() or input() for _ in range({CHILDREN})]\ninput()"
    job = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    time.sleep(0.5)
    print(f"{os.uname().release}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    try:
        parts(job.pid, reads)
        processes(job.pid, reads)
        whole(job.pid, reads)
        gpus(reads)
        monitor(job.pid)
    finally:
        job.kill()
        job.wait()


if __name__ == "__main__":
    main()
