"""What stack samples of loader workers say: the lines that make batches, and workers held still."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from whyidle.analysis.sampling.gil_waits import find_locked_workers
from whyidle.model.loading import SAMPLE, Loading

_ENTRY = re.compile(r"torch/utils/data/_utils/worker\.py\(\d+\): _worker_loop$")
"""where a loader worker begins"""


def interpret_workers(loading: Loading) -> Loading:
    """The same with the samples of its workers interpreted: those inside a batch, with their
    stacks, and the share of them that found the worker asleep while its lock was taken."""
    stacks: list[str] = []
    tables, still = [np.empty(0, SAMPLE)], [np.empty(0, bool)]
    for worker in loading.worker_samples:
        own = [_cut_inherited(stack) for stack in worker.samples.stacks]
        rows = worker.samples.rows
        leaf = [stack.split(";", 1)[0] for stack in own]
        still.append(find_locked_workers(rows, leaf)[worker.inside])
        table = np.empty(int(worker.inside.sum()), SAMPLE)
        table["time"] = rows["time"][worker.inside]
        table["stack"] = rows["stack"][worker.inside] + len(stacks)
        tables.append(table)
        stacks += own
    asleep = np.concatenate(still)
    return replace(
        loading,
        samples=np.concatenate(tables),
        stacks=tuple(stacks),
        still=float(asleep.mean()) if len(asleep) else 0.0,
        worker_samples=(),
    )


def _cut_inherited(stack: str) -> str:
    """The stack without what a forked worker inherits: the loop in which its parent stood when it
    started the worker, which never runs in it."""
    frames = stack.split(";")
    entries = (at for at, frame in enumerate(frames) if _ENTRY.search(frame))
    return ";".join(frames[: next(entries, len(frames))])
