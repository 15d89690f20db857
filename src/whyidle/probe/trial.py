"""The witness of a trial: when each step ended, what it learned, and the end after long enough.

Losses are those that ``backward`` is called on. They are kept as tensors and read at the end, so
that nothing waits for a device in between. The document ``PID.trial.json`` is written when the
asked number of steps and seconds is done, or when the process ends.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import guard

MOST_LOSSES = 20_000
BACKWARDS = 8
"""after so many backward passes without a step of an optimizer of PyTorch's each is a step"""
clock = time.perf_counter_ns


class Witness:
    """What one process of a trial tells."""

    def __init__(self, folder: str, asked: dict[str, Any]) -> None:
        self.folder = folder
        self.steps: int = asked.get("steps") or 0
        self.seconds: float = asked.get("seconds") or 0.0
        """both are wanted"""
        self.marks: list[int] = []
        self.losses: list[Any] = []
        self.first: int | None = None
        self.backwards = 0
        self.told = False
        self.begun = clock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.told = True  # a child is not the job

    def saw(self, tensors: Any) -> None:
        """A backward pass begins."""
        self.backwards += 1
        if self.first is None and self.backwards > BACKWARDS:
            self.marked()
        one = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        if len(self.losses) < MOST_LOSSES and getattr(one, "numel", lambda: 0)() == 1:
            self.losses.append(one.detach().clone())

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if self.first is None:
            self.first = id(optimizer)
            self.marks.clear()
        if id(optimizer) == self.first:
            self.marked()

    def marked(self) -> None:
        """A step has ended."""
        if self.told:
            return
        self.marks.append(clock())
        ran_s = (self.marks[-1] - self.marks[0]) / 1e9
        if len(self.marks) >= self.steps and ran_s >= self.seconds:
            self.tell("stopped")
            ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
            signal.raise_signal(signal.SIGTERM if ignored else signal.SIGINT)

    def tell(self, ended: str = "finished") -> None:
        """Write the document, once."""
        if self.told or not self.marks:
            return
        self.told = True
        document = {
            "ended": ended,
            "begun": self.begun,
            "marks": self.marks,
            "losses": [float(one) for one in self.losses],
            "rank": os.environ.get("RANK"),
            "memory_bytes": _memory(),
        }
        path = Path(self.folder) / f"{os.getpid()}.trial.json"
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(document), encoding="utf-8")
        draft.replace(path)


def install(folder: str) -> None:
    """Watch this process, where ``WHYIDLE_TRIAL`` asks for it: a JSON object of ``steps``,
    ``seconds`` and ``seed`` (what is added to every seed)."""
    text = os.environ.get("WHYIDLE_TRIAL")
    if not text:
        return
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    asked = json.loads(text)
    _seed(int(asked.get("seed", 0)))
    witness = Witness(folder, asked)
    is_compiling = guard.compiling()

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            witness.stepped(optimizer)

    register_optimizer_step_post_hook(after)
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        guard.contained(folder, "loss", lambda: witness.saw(tensors))
        return original(tensors, *args, **kwargs)

    torch.autograd.backward = backward
    atexit.register(lambda: guard.contained(folder, "trial", witness.tell))


def _seed(added: int) -> None:
    """What a script does not seed starts from the same numbers in every arm; ``added`` gives others
    to all that it does."""
    import torch

    random.seed(added)
    torch.manual_seed(added)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(added)
    if added:
        torch.manual_seed = _shifted(torch.manual_seed, added)
        random.seed = _shifted(random.seed, added)
        if numpy is not None:
            numpy.random.seed = _shifted(numpy.random.seed, added)


def _shifted(original: Callable[..., Any], added: int) -> Callable[..., Any]:
    def seed(value: Any = 0, *args: Any, **kwargs: Any) -> Any:
        return original(value + added if isinstance(value, int) else value, *args, **kwargs)

    return seed


def _memory() -> int | None:
    """Peak resident memory of this process, bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)
