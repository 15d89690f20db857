"""The witness of a trial: records the end and the loss of each step, and ends the job on time.

A host may run many steps ahead of its device and then wait for all of them at once. So the witness
waits for the device when the steps have become steady, and again after the last step of a job that
it stops: the work of the steps in between lies between these moments.

Losses are the tensors that ``backward`` is called on. Those on a device are stored as tensors and
read at the end, so that nothing waits for the device; those on the CPU are stored as numbers, as a
stored tensor takes a kilobyte, which in every step resembles a leak. ``PID.trial.json`` is written
when the requested number of steps and seconds is reached, or when the process ends. Several ranks
end after the same step (``rank_sync``).
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core import fault_containment, loaded_modules
from ..core.events import MOST_OTHERS
from ..core.listener import Listener
from ..core.trial_state import TrialState
from .device_progress import DeviceProgress
from .rank_sync import RankSync

FEW = 2
"""most pauses that count as one-off, as when a compiled model is evaluated for the first time; a
job with more of them recompiles again and again (``fix/statistics/speedup.py``)"""
SHELLS = frozenset({"ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "zsh"})


def stop_shells(folder: str) -> None:
    """Stop the parent shells that belong to this trial, before it ends; it kills them later. They
    would run the next line of their script, which may shut down the machine: a shell that was not
    interrupted itself takes an interrupted command as finished. Launchers of ranks keep running, as
    they end their ranks in order."""
    mark = f"WHYIDLE_RUN={folder}".encode()
    with suppress(OSError, ValueError):  # no /proc, or a process of another user
        pid = os.getppid()
        while pid > 1:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark not in file.read().split(b"\0"):
                    return
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) in SHELLS:
                os.kill(pid, signal.SIGSTOP)
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])


class CompilePauses:
    """Compilations as ``spans``: number of steps before, begin and end, ns."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int, int]] = []

    def note_compilation(self, steps: int, begin: int, end: int) -> None:
        """Note a compilation; nested ones are part of it."""
        while self.spans and self.spans[-1][1] >= begin:
            self.spans.pop()
        self.spans.append((steps, begin, end))

    def once_ns(self, steps: int) -> int:
        """Return the time of compilations after this many steps, if they are one-off; else 0."""
        late = [(count, end - begin) for count, begin, end in self.spans if count >= steps]
        few = len({count for count, _ in late}) <= FEW
        return sum(ns for _, ns in late) if few else 0

    def pauses_by_step(self) -> list[tuple[int, int]]:
        """Return (number of steps before, length in ns) of each pause."""
        return [(count, end - begin) for count, begin, end in self.spans]


MOST_LOSSES = 20_000
WITNESSED = 10
"""the step after which the movement of parameters is measured"""
BACKWARDS = 8
"""backward passes without an optimizer's step after which each of them counts as a step"""
LONGER, MUCH_LONGER, MORE_STEPS = 3.0, 6.0, 24
"""largest multiple of the requested time for which the job continues until operators are recorded;
the second applies while fewer than ``MORE_STEPS`` steps were seen"""
WARM, WARM_STEPS = 0.2, 3
"""share of the requested seconds, and steps, after which the device is first waited for"""
MEMORY_NS = 50_000_000
"""least time between readings of the device's memory"""
clock = time.perf_counter_ns


class TrialRecorder(Listener):
    """Records one process of a trial."""

    listener = "trial"

    def __init__(self, folder: str, request: dict[str, Any], state: TrialState) -> None:
        self.folder, self.state = folder, state
        self.steps: int = request.get("steps") or 0
        self.seconds: float = request.get("seconds") or 0.0
        """requested seconds of training; steps and seconds must both be reached"""
        self.waits: Callable[[], bool] = bool
        """whether operators are still to be recorded"""
        self.marks: list[int] = []
        self.losses: list[Any] = []
        self.known: list[int] = []
        """losses that stand for themselves, where others repeat the loss after several steps"""
        self.batches: list[int] = []
        """hashes of the batches of steps that have no loss"""
        self.ended = 0
        """when the step that is noted ended, if not now"""
        self.first: int | None = None
        self.others = self.backwards = 0
        self.kept: tuple[Any, Any] | None = None
        """a copy of some parameters after the first step, and the parameters"""
        self.moved: Any = None
        self.sway: Any = None
        """the rounding noise, if the arm has any"""
        self.norm: Any = None
        """norm of all parameters after ``WITNESSED`` steps"""
        self.random: bytes | None = None
        self.drew: bool | None = None
        """whether a step draws random numbers"""
        self.device: list[tuple[int, int]] = []
        """(steps, bytes that the device held after them)"""
        self.looked = 0
        self.done = DeviceProgress(clock)
        self.compiled = CompilePauses()
        self.ranks = RankSync(folder, state.rank)
        self.files: dict[str, list[str]] | None = None
        """the job's loaded files (``loaded_modules``), if they could be listed"""
        self.failed = self.reported = False
        self.begun = clock()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.reported = True  # a child is not the job

    def note_losses(self, tensors: Any, steps: int = 1) -> None:
        """Note the loss at the begin of a backward pass, or the one after so many steps."""
        self.ranks.join_ranks()
        self.backwards += 1
        if self.first is None and self.backwards > BACKWARDS:
            self.note_step()
        if len(self.losses) < MOST_LOSSES:
            self.losses += [self.state.loss_of(tensors)] * steps
            if steps > 1 or self.known:
                self.known.append(len(self.losses) - 1)

    def note_batch(self, batch: int | None) -> None:
        """Note the hash of the batch of a step without a loss; None if it could not be read."""
        if batch is not None and len(self.batches) < MOST_LOSSES:
            self.batches.append(batch)

    def note_optimizer_step(self, optimizer: Any) -> None:
        """Note a step of an optimizer."""
        if self.first is None or self.others > MOST_OTHERS:
            self.first, self.others = id(optimizer), 0
            self.marks.clear()
            self.kept = self.state.largest(optimizer)
            fault_containment.run_contained(
                self.folder,
                "device",
                lambda: self.done.follow_device(self.state.device_of(optimizer)),
            )
        if id(optimizer) != self.first:
            self.others += 1
            return
        self.others = 0
        fault_containment.run_contained(
            self.folder, "parameters", lambda: self._note_parameters(optimizer)
        )
        self.note_step()

    def on_compilation(self, begin: int, end: int) -> None:
        """Note a pause for compiling code."""
        self.compiled.note_compilation(len(self.marks), begin, end)

    def _note_parameters(self, optimizer: Any) -> None:
        """Measure how far the first steps have moved the parameters."""
        if len(self.marks) == WITNESSED - 1:
            self.random = self.state.random_state(self.done.device_index)
        elif len(self.marks) == WITNESSED:
            self.norm = self.state.norm(optimizer)
            now = self.state.random_state(self.done.device_index)
            self.drew = self.random is not None and self.random != now
            if self.kept is not None:
                before, after = self.kept
                self.moved, self.kept = (self.state.local(after) - before).norm(), None

    def note_step(self) -> None:
        """Note the end of a step; end the job if it has run long enough."""
        if self.reported:
            return
        self.ranks.join_ranks()
        self.marks.append(self.ended or clock())
        if self.marks[-1] - self.looked >= MEMORY_NS:
            fault_containment.run_contained(self.folder, "memory", self._hold_parents)
        fault_containment.run_contained(
            self.folder, "device", lambda: self.done.note_step(len(self.marks))
        )
        ran_s = (self.marks[-1] - self.marks[0]) / 1e9
        early = len(self.marks) <= WARM_STEPS or ran_s < WARM * self.seconds
        if not self.done.drained and not early:
            fault_containment.run_contained(
                self.folder, "device", lambda: self.done.wait_for_device(len(self.marks))
            )
        ran_s = self._counts_s(ran_s)
        due = len(self.marks) >= self.steps and ran_s >= self.seconds
        longer = LONGER if len(self.marks) >= MORE_STEPS else MUCH_LONGER
        due = due and not (ran_s < longer * self.seconds and self.waits())
        if self.ranks.is_last_step(self.marks, due):
            self.write_report("stopped")
            self.ranks.wait_for_ranks()
            fault_containment.run_contained(self.folder, "shells", lambda: stop_shells(self.folder))
            ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
            signal.raise_signal(signal.SIGTERM if ignored else signal.SIGINT)

    def _counts_s(self, ran_s: float) -> float:
        """The part of the seconds since the first step that counts. The warm-up counts for no more
        than its planned share, as compiling code may take longer than all the rest; later
        compilation does not count, unless it recurs."""
        since = self._steady_start()
        if since is None:
            return ran_s
        steps = self.done.drained[0][0] if self.done.drained else WARM_STEPS + 1
        steady = self.marks[-1] - since - self.compiled.once_ns(steps)
        return min(ran_s, WARM * self.seconds + steady / 1e9)

    def _steady_start(self) -> int | None:
        """When the steady part began; None if it has not."""
        if self.done.drained:
            return self.done.drained[0][1]
        return self.marks[WARM_STEPS] if len(self.marks) > WARM_STEPS else None

    def _hold_parents(self) -> None:
        self.looked = self.marks[-1]
        held = self.state.device_bytes(self.done.device_index)
        if held is not None:
            self.device.append((len(self.marks), held))

    def _write_files(self) -> None:
        self.files = loaded_modules.loaded_files()

    def write_report(self, ended: str = "finished") -> None:
        """Write ``PID.trial.json``, once."""
        if self.reported or not self.marks:
            return
        self.reported = True
        error = sys.exc_info()[1]  # ``multiprocessing`` calls no hook for it
        self.failed |= error is not None and not (isinstance(error, SystemExit) and not error.code)
        if ended == "stopped":  # otherwise the device has done more than the steps
            fault_containment.run_contained(
                self.folder, "device", lambda: self.done.wait_for_device(len(self.marks))
            )
        fault_containment.run_contained(self.folder, "files", self._write_files)
        document = {
            "ended": "crashed" if self.failed and ended == "finished" else ended,
            "begun": self.begun,
            "marks": self.marks,
            "drained": [] if self.failed else self.done.drained_by_step(),
            "compiled": self.compiled.pauses_by_step(),
            "losses": [float(loss).hex() for loss in self.losses],  # JSON knows no infinity
            "known": self.known,
            "batches": self.batches,
            "moved": None if self.moved is None else float(self.moved).hex(),
            "norm": None if self.norm is None else float(self.norm).hex(),
            "drew": self.drew,
            "unswayed": self.sway is not None and self.sway.failed,
            "rank": self.ranks.rank,
            "world": self.ranks.world,
            "memory_bytes": _peak_bytes(),
            "device": self.device,
            "device_peak": self.state.device_peak(self.done.device_index),
            "device_free": self.state.device_free(self.done.device_index),
            "files": self.files,
        }
        path = Path(self.folder) / f"{os.getpid()}.trial.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(document), encoding="utf-8")
        draft.replace(path)


def install_witness(witness: TrialRecorder) -> None:
    """Write the witness's report when the process ends. Children of ``multiprocessing`` run no
    ``atexit``."""
    from multiprocessing import process, util

    def write() -> None:
        fault_containment.run_contained(witness.folder, "trial", witness.write_report)

    if process.parent_process() is None:
        atexit.register(write)
    else:
        util.Finalize(None, write, exitpriority=100)
    before = sys.excepthook

    def note_failure(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        witness.failed = True
        before(kind, error, trace)

    sys.excepthook = note_failure


def _peak_bytes() -> int | None:
    """Peak resident memory of this process, bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)
