"""Samples the stacks of a process tree for some seconds, with py-spy. py-spy reads the processes'
memory and never stops them (``--nonblocking``). It runs for all stacks, and once more for those of
the threads that hold the interpreter lock. Most of what it costs is due to loader workers: where
the process started no other program, they are sampled by a look of their own, and rarely."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whyidle.errors import BrokenTraceError, InputError, MissingExtraError
from whyidle.machine.attachment.target_process import refuse_access
from whyidle.readers._events.pyspy_trace import SampledThread, read_pyspy_counts, read_pyspy_trace

RATE_HZ: Final = 50
HOLDERS_HZ: Final = 10
"""of the second look, which is only counted: 80 samples in eight seconds tell a share with a
standard error of six points at most"""
WORKERS_HZ: Final = 10
"""of loader workers, of which only shares of time are asked, with the same error. Their times may
be wrong by a tenth of a second, since the other look begins earlier or later"""
_STARTED = "Sampling process"


Holders = Mapping[tuple[int, int | None], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class StackLook:
    """The threads of a look, whose times are ns after ``begin`` (``perf_counter_ns``). py-spy takes
    its first sample one mean period after it says so, and sees a change half a period late.
    ``holders``: how many sampling periods each line held the interpreter lock for, by process and
    thread; None where that is not known. ``children_hz``: of the other processes."""

    threads: list[SampledThread]
    begin: int
    holders: Holders | None = None
    children_hz: int = RATE_HZ

    @property
    def length_s(self) -> float:
        """Time between the first and the last sample."""
        ends = [one.periods[side] for one in self.threads if one.periods for side in (0, -1)]
        times = [moment for period in ends for moment in (period.begin, period.end)]
        return (max(times) - min(times)) / 1e9 if times else 0.0


def find_pyspy() -> str:
    """Path of the py-spy program.

    Raises:
        MissingExtraError: it is not installed.
    """
    own = shutil.which("py-spy", path=sysconfig.get_path("scripts"))
    if (found := own or shutil.which("py-spy")) is None:
        raise MissingExtraError(
            "py-spy is not installed.",
            why="It is needed to read the stacks of a running process.",
            hint="pip install 'whyidle[attach]'",
        )
    return found


def look_at_stacks(pid: int, seconds: float, *, apart: bool = False) -> StackLook:
    """Sample a process and its descendants, these ``apart``: rarely, by a look of their own.

    Raises:
        InputError: it ended, is no Python, or may not be read.
        MissingExtraError: py-spy is not installed.
    """
    program = find_pyspy()
    with tempfile.TemporaryDirectory(prefix="whyidle-attach-") as folder:
        path, others, held = (Path(folder) / name for name in ("all.json", "others.json", "held"))
        words = [program, "record", "--pid", str(pid), "--duration", f"{seconds:.0f}"]
        words += ["--threads", "--nonblocking", "--full-filenames"]
        tree = [*words, "--subprocesses"]
        timed = ["--idle", "--format", "chrometrace", "--rate"]
        counted = ["--gil", "--format", "raw", "--rate", str(HOLDERS_HZ), "--output", str(held)]
        with ExitStack() as running:
            rarely = [*tree, *timed, str(WORKERS_HZ), "--output", str(others)]
            wanted = [[*(words if apart else tree), *counted], *([rarely] if apart else [])]
            beside = [running.enter_context(_start(one)) for one in wanted]
            often = [*(words if apart else tree), *timed, str(RATE_HZ), "--output", str(path)]
            output, begun = _follow(running.enter_context(_start(often)), seconds)
            for one in beside:
                _follow(one, seconds)
        if not path.exists():
            raise _explain_failure(pid, output)
        threads = read_pyspy_trace(path)
        first = min((one.periods[0].begin for one in threads if one.periods), default=0)
        if others.exists():
            threads += [one for one in read_pyspy_trace(others) if one.pid != pid]
        threads = [one for one in threads if one.pid != os.getpid()]
        holders = _read_holders(held)
    if not any(one.periods for one in threads):
        raise _no_python(pid, "Neither it nor a process that it started was seen to run any")
    return StackLook(
        threads, begun + 500_000_000 // RATE_HZ - first, holders, WORKERS_HZ if apart else RATE_HZ
    )


def _start(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def _read_holders(path: Path) -> Holders | None:
    """Who held the lock; None if nobody was seen with it: an interpreter without one, or of a
    version whose lock py-spy does not find."""
    try:
        counts = read_pyspy_counts(path)
    except BrokenTraceError:
        return None
    scale = RATE_HZ / HOLDERS_HZ
    return {
        thread: {line: number * scale for line, number in lines.items()}
        for thread, lines in counts.items()
    } or None


def _follow(running: subprocess.Popen[str], seconds: float) -> tuple[str, int]:
    """Everything that py-spy says, and when it began to sample."""
    lines, begun = [], time.perf_counter_ns()
    for line in running.stdout or ():
        if _STARTED in line:
            begun = time.perf_counter_ns()
        lines.append(line)
    try:
        # py-spy must have written what it saw by then
        running.wait(seconds + 20.0)
    except subprocess.TimeoutExpired:
        running.kill()
    return "".join(lines), begun


def _explain_failure(pid: int, output: str) -> InputError:
    text = output.lower()
    if "permission denied" in text or "operation not permitted" in text:
        return refuse_access(pid)
    if not Path(f"/proc/{pid}").exists() or "no such process" in text:
        return InputError(
            f"Process {pid} ended during the observation.",
            hint="Start its command with whyidle run.",
        )
    if "python" in text:
        return _no_python(pid, _first_error(output))
    return InputError(f"py-spy could not read process {pid}.", why=f"{_first_error(output)}.")


def _no_python(pid: int, why: str) -> InputError:
    return InputError(
        f"Process {pid} runs no readable Python.",
        why=f"{why}.",
        hint="Name the Python process itself: pgrep -af python",
    )


def _first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.startswith("Error: ")]
    return lines[0].removeprefix("Error: ").rstrip(".") if lines else "It gave no reason"
