"""The witness of a trial: when each step ended, what it learned, and the end after long enough.

A host may be many steps ahead of its device, and then waits for all of them at once. So the device
is waited for when the steps have become steady, and after the last step of a job that is stopped:
what lies between has been done between.

Losses are those that ``backward`` is called on. Those of a device are kept as tensors and read at
the end, so that nothing waits for it in between; those of the CPU as numbers, as a kept tensor
takes a kilobyte, which in every step looks like a leak. The document ``PID.trial.json`` is written
when the asked number of steps and seconds is done, or when the process ends. Several ranks end
after the same step (``together``). Where several values of a knob race, ``PID.rung.json`` tells on
the way how long a step takes by then.
"""

from __future__ import annotations

import atexit
import bisect
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core import containment, loaded_modules
from ..core.listener import Listener
from ..core.trial_state import TrialState
from . import parent_shells
from .compile_pauses import CompilePauses
from .device_progress import DeviceProgress
from .gradient_noise import GradientNoise
from .rank_sync import RankSync
from .sample_counter import SampleCounter

MOST_LOSSES = 20_000
WITNESSED = 10
"""the step after which it is measured how far parameters have gone"""
RUNG_STEPS, RUNG_LEAST = 6, 3
"""fewer steps tell nothing of how long one takes; and so many of them that count"""
MOST_OTHERS = 50
"""steps of other optimizers in a row, after which the one that came first is given up"""
BACKWARDS = 8
"""after so many backward passes without a step of an optimizer each is a step"""
LONGER, MUCH_LONGER, MORE_STEPS = 3.0, 6.0, 24
"""times as long as asked it goes on at most for operators that are to be recorded; the second where
steps are so long that it has not yet seen as many"""
WARM, WARM_STEPS = 0.2, 3
"""of the seconds asked for, and so many steps, after which the device is waited for first"""
MEMORY_NS = 50_000_000
"""so far apart is what a device holds looked up, at least"""
clock = time.perf_counter_ns


class Witness(Listener):
    """What one process of a trial tells."""

    listener = "trial"

    def __init__(self, folder: str, asked: dict[str, Any], state: TrialState) -> None:
        self.folder, self.state = folder, state
        self.steps: int = asked.get("steps") or 0
        self.seconds: float = asked.get("seconds") or 0.0
        """both are wanted"""
        self.waits: Callable[[], bool] = bool
        """whether something is still to be recorded (nothing is)"""
        self.rungs: list[float] = asked.get("rungs") or []
        """seconds after which it is told how long a step takes"""
        self.rung = 0
        self.per_sample: bool = asked.get("per_sample", False)
        """whether rungs tell how long a sample takes instead"""
        self.drawn = SampleCounter()
        self.samples: list[int] = []
        """used by each mark"""
        self.noise = GradientNoise() if asked.get("noise") else None
        self.marks: list[int] = []
        self.losses: list[Any] = []
        self.first: int | None = None
        self.others = self.backwards = 0
        self.kept: tuple[Any, Any] | None = None
        """of some parameters: what they were after the first step, and themselves"""
        self.moved: Any = None
        self.sway: Any = None
        """what puts its results off, where they are to be"""
        self.norm: Any = None
        """of all parameters, then"""
        self.random: bytes | None = None
        self.drew: bool | None = None
        """whether random numbers are drawn in a step"""
        self.device: list[tuple[int, int]] = []
        """after which step the device held how many bytes"""
        self.looked = 0
        self.done = DeviceProgress(clock)
        self.compiled = CompilePauses()
        self.ranks = RankSync(folder, state.rank)
        self.files: dict[str, list[str]] | None = None
        """of the job that are loaded (`loaded`), where they could be looked up"""
        self.failed = self.told = False
        self.begun = clock()
        os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self.told = True  # a child is not the job

    def note_losses(self, tensors: Any) -> None:
        """A backward pass begins."""
        self.ranks.join_ranks()
        self.backwards += 1
        if self.first is None and self.backwards > BACKWARDS:
            self.note_step()
        self.drawn.note_backward()
        if len(self.losses) < MOST_LOSSES:
            self.losses.append(self.state.loss_of(tensors))

    def note_optimizer_step(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if self.first is None or self.others > MOST_OTHERS:
            self.first, self.others = id(optimizer), 0
            self.marks.clear()
            self.samples.clear()
            self.kept = self.state.largest(optimizer)
            containment.run_contained(
                self.folder,
                "device",
                lambda: self.done.follow_device(self.state.device_of(optimizer)),
            )
        if id(optimizer) != self.first:
            self.others += 1
            return
        self.others = 0
        containment.run_contained(
            self.folder, "parameters", lambda: self._note_parameters(optimizer)
        )
        if self.noise is not None:
            own, state = self.noise, self.state
            containment.run_contained(
                self.folder, "gradients", lambda: own.note_step(state.gradients(optimizer))
            )
        self.note_step()

    def on_compilation(self, begin: int, end: int) -> None:
        """Code was compiled, from when to when."""
        self.compiled.note_compilation(len(self.marks), begin, end)

    def _note_parameters(self, optimizer: Any) -> None:
        """What the first steps have done to them."""
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
        """A step has ended."""
        if self.told:
            return
        self.ranks.join_ranks()
        self.marks.append(clock())
        self.samples.append(self.drawn.note_step())
        if self.marks[-1] - self.looked >= MEMORY_NS:
            containment.run_contained(self.folder, "memory", self._hold_parents)
        containment.run_contained(
            self.folder, "device", lambda: self.done.note_step(len(self.marks))
        )
        ran_s = (self.marks[-1] - self.marks[0]) / 1e9
        early = len(self.marks) <= WARM_STEPS or ran_s < WARM * self.seconds
        if not self.done.drained and not early:
            containment.run_contained(
                self.folder, "device", lambda: self.done.wait_for_device(len(self.marks))
            )
        ran_s = self._counts_s(ran_s)
        if self.rung < len(self.rungs) and ran_s >= self.rungs[self.rung]:
            self.tell_rung()
        due = len(self.marks) >= self.steps and ran_s >= self.seconds
        longer = LONGER if len(self.marks) >= MORE_STEPS else MUCH_LONGER
        due = due and not (ran_s < longer * self.seconds and self.waits())
        if self.ranks.is_last_step(self.marks, due):
            self.write_report("stopped")
            self.ranks.wait_for_ranks()
            containment.run_contained(
                self.folder, "shells", lambda: parent_shells.stop_shells(self.folder)
            )
            ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
            signal.raise_signal(signal.SIGTERM if ignored else signal.SIGINT)

    def _counts_s(self, ran_s: float) -> float:
        """What of the seconds since the first step counts as done. Of what comes before the steady
        part, no more than belongs to it: code that is compiled there may take longer than all; and
        nothing of what is compiled later, unless that goes on and on."""
        since = self._steady_start()
        if since is None:
            return ran_s
        steps = self.done.drained[0][0] if self.done.drained else WARM_STEPS + 1
        steady = self.marks[-1] - since - self.compiled.once_ns(steps)
        return min(ran_s, WARM * self.seconds + steady / 1e9)

    def _steady_start(self) -> int | None:
        """When the steady part began; None where it has not."""
        if self.done.drained:
            return self.done.drained[0][1]
        return self.marks[WARM_STEPS] if len(self.marks) > WARM_STEPS else None

    def tell_rung(self) -> None:
        """Write how long a step takes in the later half of the time so far, and of its steady part:
        what was loaded ahead at the start is used up by then. Needs some steps, and is told once it
        has them."""
        half = (self.marks[0] + self.marks[-1]) // 2
        first = max(bisect.bisect_left(self.marks, half) - 1, 0)
        first = max(first, bisect.bisect_left(self.marks, self._steady_start() or 0))
        if len(self.marks) < RUNG_STEPS or len(self.marks) - first <= RUNG_LEAST:
            return
        count = self._work_done(first)
        if not count:
            return
        self.rung += 1
        step_s = (self.marks[-1] - self.marks[first]) / 1e9 / count
        told = {"rung": self.rung, "step_s": step_s, "rank": self.ranks.rank}
        self._write_document("rung", told)

    def _work_done(self, first: int) -> int:
        """What has been done since a mark, by which a rung's time is divided."""
        if self.per_sample:
            return self.samples[-1] - self.samples[first]
        return len(self.marks) - 1 - first

    def _write_document(self, kind: str, document: dict[str, Any]) -> None:
        path = Path(self.folder) / f"{os.getpid()}.{kind}.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(document), encoding="utf-8")
        draft.replace(path)

    def _hold_parents(self) -> None:
        self.looked = self.marks[-1]
        held = self.state.device_bytes(self.done.device_index)
        if held is not None:
            self.device.append((len(self.marks), held))

    def _write_files(self) -> None:
        self.files = loaded_modules.loaded_files()

    def write_report(self, ended: str = "finished") -> None:
        """Write the document, once."""
        if self.told or not self.marks:
            return
        self.told = True
        self.failed |= _is_failing()
        if ended == "stopped":  # later than that the device has done more than the steps
            containment.run_contained(
                self.folder, "device", lambda: self.done.wait_for_device(len(self.marks))
            )
        containment.run_contained(self.folder, "files", self._write_files)
        document = {
            "ended": "crashed" if self.failed and ended == "finished" else ended,
            "begun": self.begun,
            "marks": self.marks,
            "drained": [] if self.failed else self.done.drained_by_step(),
            "compiled": self.compiled.pauses_by_step(),
            "samples": self.samples if self.drawn.total else [],
            "noise": self.noise.noise_terms() if self.noise else [],
            "losses": [float(one).hex() for one in self.losses],  # JSON knows no infinity
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
        self._write_document("trial", document)


def install_witness(witness: Witness) -> None:
    """Have it told when the process ends, as it will; a child that ``multiprocessing`` started ends
    without a word to ``atexit``."""
    from multiprocessing import process, util

    def tell() -> None:
        containment.run_contained(witness.folder, "trial", witness.write_report)

    if process.parent_process() is None:
        atexit.register(tell)
    else:
        util.Finalize(None, tell, exitpriority=100)
    before = sys.excepthook

    def failed(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        witness.failed = True
        before(kind, error, trace)

    sys.excepthook = failed


def _peak_bytes() -> int | None:
    """Peak resident memory of this process, bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def _is_failing() -> bool:
    """Whether an error is what ends the process: ``multiprocessing`` tells no hook of it."""
    error = sys.exc_info()[1]
    return error is not None and not (isinstance(error, SystemExit) and not error.code)
