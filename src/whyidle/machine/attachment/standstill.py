"""A process that makes no progress: where each of its threads waits, and for what.

A process stands still if its main thread showed one line in the whole look and hardly woke, while
its processes computed nothing and read nothing; or if it waited at one line of a collective. What a
thread waits for is told by the functions on its stack, else by the kernel.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from whyidle.analysis.lines.source_lines import frame_place, own_frame
from whyidle.machine.attachment.gpu_limits import mean_busy
from whyidle.machine.attachment.stack_look import StackLook, find_pyspy
from whyidle.machine.attachment.target_process import TargetProcess, children_of, peers_of
from whyidle.machine.attachment.thread_clocks import ThreadClocks
from whyidle.machine.sources._kernel_waits import wait_of
from whyidle.model.diagnosis import Place
from whyidle.model.live.telemetry import Telemetry
from whyidle.readers._events.pyspy_trace import SampledThread

_BY_FUNCTION: Final = (
    ("a collective", r"/torch/distributed/|/torch/nn/parallel/distributed|/horovod/|/mpi4py/"),
    ("its loader's workers", r"/torch/utils/data/dataloader\.py\(\d+\): _(try_)?(get|next)_data"),
    ("a child process", r"/subprocess\.py|/multiprocessing/popen_\w+\.py\(\d+\): (poll|wait)"),
    ("a queue", r"/queue\.py|/multiprocessing/queues\.py"),
    ("the end of a thread", r"/threading\.py\(\d+\): (join|_wait_for_tstate_lock)"),
    ("a future", r"/concurrent/futures/"),
    ("a file lock", r"/filelock/|/portalocker/|/fasteners/"),
    ("a lock or an event", r"/threading\.py\(\d+\): (wait|wait_for|acquire|__enter__)"),
    ("the network", r"/(socket|ssl|http/client|urllib3/\w+|grpc/\w+)\.py"),
)
"""what a stack waits for, the first that matches counts"""
_BACKWARD: Final = "/torch/autograd/"


@dataclass(frozen=True, slots=True)
class StillThread:
    """A thread as a dump saw it, its frames innermost first. ``wait``: what it waits for; "":
    nothing, it computes."""

    pid: int
    tid: int
    name: str
    frames: tuple[str, ...]
    wait: str
    folder: str

    @property
    def is_main(self) -> bool:
        """Whether it is the first thread of its process."""
        return self.tid == self.pid

    @property
    def place(self) -> Place | None:
        """The user's innermost line; for a main thread without any the innermost."""
        own = own_frame(";".join(self.frames))
        return frame_place(own or (self.frames[0] if self.is_main else ""), None)

    def tell(self) -> str:
        """Where it is and what it waits for, as the end of a sentence."""
        at = f" at {self.place}".replace(f"{self.folder}/", "") if self.place else ""
        if self.wait in ("", "a sleep"):
            return f"{'sleeps' if self.wait else 'computes'}{at}"
        return f"waits{at} for {self.wait}"


@dataclass(frozen=True, slots=True)
class Standstill:
    """Why nothing moves, in one sentence, and a line for each thread."""

    reason: str
    notes: list[str]


def find_standstill(
    target: TargetProcess, look: StackLook, clocks: ThreadClocks, telemetry: Telemetry | None
) -> Standstill | None:
    """Return what keeps a process from going on; None if it was seen to do anything."""
    mains = {one.pid: one for one in look.threads if one.tid == one.pid and one.periods}
    still = {pid: _stack_of(one) for pid, one in mains.items() if _stays_put(one, look, clocks)}
    peers = {pid: peers_of(pid) for pid in still}
    ranks = next(
        (peers[p] for p in still if _kind_of(still[p], len(peers[p])) == "a collective"), {}
    )
    main = target.pid if target.pid in mains else min(mains, default=0)
    works = main not in still or clocks.share_of(target.pids, look.begin) > 0.1 or _reads(telemetry)
    if not ranks and (works or (mean_busy(telemetry, target.pids) or 0.0) > 0.1):
        return None
    folder = target.folder or ""
    pids = dict.fromkeys([*mains, *ranks])
    threads = [one for pid in pids for one in _dump_threads(pid, len(ranks), folder)]
    if not any(one.pid in (ranks or (main,)) for one in threads):
        return None
    told = _tell_ranks(threads, ranks) if ranks else _tell_chain(main, threads)
    notes = [f"{_name(one)} {one.tell()}" for one in threads if one.place]
    hidden = len(threads) - len(notes)
    if hidden:
        notes.append(f"{hidden} threads are inside of libraries that started them")
    return Standstill(f"nothing moved in the {look.length_s:.0f} s of observation: {told}", notes)


def _stays_put(thread: SampledThread, look: StackLook, clocks: ThreadClocks) -> bool:
    """Whether a thread was at one line all the time, with a wake-up or two for each time-out of a
    queue (5 s in PyTorch)."""
    frames = {own_frame(";".join(period.frames)) or period.frames[0] for period in thread.periods}
    return len(frames) == 1 and clocks.wakeups(thread.pid, look.begin) <= 1 + look.length_s * 2 / 5


def _stack_of(thread: SampledThread) -> str:
    return ";".join(max(thread.periods, key=lambda one: one.end - one.begin).frames)


def _kind_of(stack: str, peers: int) -> str:
    """What the functions of a stack say that it waits for; "" if they do not."""
    if peers > 1 and _BACKWARD in stack:
        return "a collective"
    return next((kind for kind, names in _BY_FUNCTION if re.search(names, stack)), "")


def _reads(telemetry: Telemetry | None) -> bool:
    """Whether the job read a MiB or more, as one that loads or downloads does."""
    series = telemetry.series_of("job_read_calls_bytes") if telemetry is not None else {}
    return any(one.value[-1] - one.value[0] > 1 << 20 for one in series.values() if len(one.value))


def _dump_threads(pid: int, ranks: int, folder: str) -> Iterator[StillThread]:
    """The threads of a process; none if it has ended or runs no Python. Of a process that goes on
    meanwhile a dump may fail: then it is tried again."""
    words = [find_pyspy(), "dump", "--json", "--nonblocking", "--full-filenames"]
    rows: list[dict[str, Any]] = []
    for _ in range(3):
        if not rows:
            done = subprocess.run([*words, "--pid", str(pid)], capture_output=True, check=False)
            rows = msgspec.json.decode(done.stdout) if done.returncode == 0 else []
    for row in sorted(rows, key=lambda row: row["os_thread_id"] or 0):
        if not row["frames"]:
            continue
        frames = tuple(
            f"{one['filename']}({one['line']}): {one['name'].rpartition('.')[2]}"
            for one in row["frames"]
        )
        path = Path(f"/proc/{pid}/task/{row['os_thread_id']}")
        wait = _kind_of(";".join(frames), ranks) or wait_of(path) or ""
        if wait == "a lock" and not own_frame(frames[0]):
            wait = "a lock or an event"
        yield StillThread(
            pid, row["os_thread_id"] or 0, row["thread_name"] or "", frames, wait, folder
        )  # fmt: skip


def _name(thread: StillThread) -> str:
    return f"process {thread.pid}" if thread.is_main else f"{thread.name} ({thread.tid})"


def _tell_ranks(threads: Sequence[StillThread], ranks: dict[int, int | None]) -> str:
    mains = {one.pid: one for one in threads if one.is_main and one.pid in ranks}
    names = {
        p: f"process {p}" if ranks[p] is None else f"rank {ranks[p]} (process {p})" for p in mains
    }
    absent = [pid for pid, one in mains.items() if one.wait != "a collective"]
    places: dict[str, list[str]] = {}
    for pid, one in mains.items():
        if pid not in absent:
            places.setdefault(one.tell(), []).append(names[pid])
    waiting = [f"{', '.join(who)} {text}" for text, who in places.items()]
    late = [f"{names[pid]} did not arrive: it {mains[pid].tell()}" for pid in absent]
    if not late and len(places) > 1:
        late = ["the ranks wait in different collectives"]
    elsewhere = "" if late else "; all ranks seen here arrived, so look at the other machines"
    return "; ".join([*late, *waiting]) + elsewhere


def _tell_chain(main: int, threads: Sequence[StillThread]) -> str:
    """The main thread's wait, then that of the worker or child that it waits for, and so on."""
    last = next(one for one in threads if one.pid == main)
    last = next((one for one in threads if one.pid == main == one.tid), last)
    text = f"{_name(last)} {last.tell()}"
    while last.wait in ("its loader's workers", "a child process"):
        children = children_of(last.pid)
        stuck = [t for t in threads if t.is_main and t.pid in children and _is_own(t)]
        if not stuck:
            break
        last = stuck[0]
        text += f": {_name(last)} {last.tell()}"
    return text


def _is_own(thread: StillThread) -> bool:
    """Whether a line of the user's is on its stack."""
    return bool(own_frame(";".join(thread.frames)))
