"""Imagined recordings of a watched CPU job, as the probe would write them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from whyidle.diagnosis.process_reading import read_process
from whyidle.model.timeline import HostKind, Timeline
from whyidle.readers import probe
from whyidle.readers.probe.samples import AWAKE, HELD_BITS, SAMPLE

LOOK_NS = 5_000_000
"""time between two stack samples"""
THREAD = 1
HELD_US, RELEASED_US = 5_000, 500
FREE, TAKEN = 1 << HELD_BITS, 3 << HELD_BITS
"""how often the sampler gave up its core where it found the GIL free, or taken"""


class RecordedJob:
    """One process whose device is the CPU. Durations are integer nanoseconds; a stack is written
    innermost frame first, ``file(line): function;...``."""

    def __init__(self, *, start_ns: int = 1_000_000_000, **facts: Any) -> None:
        self.now = start_ns
        self.spans: list[tuple[int, int, str, int]] = []
        self.samples: list[tuple[int, int, str, int]] = []
        self.documents: dict[str, Mapping[str, Any]] = {}
        self.sources: dict[str, str] = {}
        self.facts = {"pid": 1, "device": "cpu", "switches": {}, **facts}
        self._ran = 0

    @contextmanager
    def call(self, name: str, kind: HostKind = HostKind.ANNOTATION) -> Iterator[None]:
        """Record a call around everything inside."""
        begin = self.now
        yield
        self.now = max(self.now, begin + 1_000)
        self.spans.append((begin, self.now, name, int(kind)))

    def work(self, stack: str, duration: int) -> None:
        """Run operators called from these lines."""
        self._look(stack, duration, held=FREE, busy=True)

    def work_told(self, stack: str, duration: int) -> None:
        """Run operators, with the kernel reporting the thread as awake."""
        self._look(stack, duration, held=AWAKE | FREE, busy=True)

    def python(self, stack: str, duration: int, *, held: int = HELD_US) -> None:
        """Run Python; ``held=RELEASED_US``: it releases the GIL at these lines, and not before."""
        self._look(stack, duration, held=TAKEN | held, busy=True)

    def wait(self, stack: str, duration: int) -> None:
        """Let the thread sleep."""
        self._look(stack, duration, held=FREE, busy=False)

    def sleep_locked(self, stack: str, duration: int) -> None:
        """Let the thread sleep while the GIL is taken."""
        self._look(stack, duration, held=TAKEN | HELD_US, busy=False)

    def _look(self, stack: str, duration: int, *, held: int, busy: bool) -> None:
        end = self.now + duration
        for time in range(self.now, end, LOOK_NS):
            waited = held & ((1 << HELD_BITS) - 1)
            runnable = self._ran + (time - self.now + waited * 1000 if busy else 0)
            self.samples.append((time, runnable, stack, held))
        self._ran += duration if busy else 0
        self.now = end

    def backward(self, stack: str, duration: int) -> None:
        """Run a backward pass."""
        with self.call("whyidle::backward", HostKind.OP):
            self.work(stack, duration)

    def step(self, stack: str, duration: int, optimizer: str = "SGD") -> None:
        """Step the optimizer, which ends the step."""
        with (
            self.call(f"Optimizer.step#{optimizer}.step"),
            self.call("whyidle::optimizer", HostKind.OP),
        ):
            self.work(stack, duration)

    def batch(self, duration: int) -> None:
        """Wait for a batch that this process prepares itself."""
        with self.call("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            self.python("/job/train.py(9): __getitem__;/job/train.py(20): <module>", duration)

    def timeline(self) -> Timeline:
        """Return the job as a watched process is read."""
        with tempfile.TemporaryDirectory() as folder:
            return read_process(self.save(Path(folder)))

    def save(self, folder: Path) -> Path:
        """Write the recording's files; return the one to read."""
        names = {name: i for i, name in enumerate(dict.fromkeys(span[2] for span in self.spans))}
        stacks = {s: i for i, s in enumerate(dict.fromkeys(sample[2] for sample in self.samples))}
        for suffix, texts in (("names", names), ("stacks", stacks)):
            (folder / f"1.{suffix}").write_text("".join(f"{text}\n" for text in texts))
        spans = np.zeros(len(self.spans), probe.SPAN)
        for row, (begin, end, name, kind) in zip(spans, self.spans, strict=True):
            row["start"], row["end"], row["thread"] = begin, end, THREAD
            row["name"], row["kind"] = names[name], kind
        samples = np.zeros(len(self.samples), SAMPLE)
        for row, (time, ran, stack, held) in zip(samples, self.samples, strict=True):
            row["time"], row["cpu"], row["thread"] = time, ran, THREAD
            row["stack"], row["held"] = stacks[stack], held
        (folder / "1.samples").write_bytes(samples.tobytes())
        for suffix, document in {"facts.json": self.facts, **self.documents}.items():
            (folder / f"1.{suffix}").write_text(json.dumps(document))
        if self.sources:
            (folder / probe.SOURCES).write_text(json.dumps(self.sources))
        path = folder / "1.spans"
        path.write_bytes(probe.MAGIC + spans.tobytes())
        return path
