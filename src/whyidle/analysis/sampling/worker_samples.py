"""Stack samples of loader workers: the lines that prepare batches, and workers blocked by the
GIL."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import numpy as np

from whyidle.analysis.sampling.gil_waits import LeafFrames, find_locked_workers
from whyidle.model.loader_tables import SAMPLE, Loading
from whyidle.model.roles import Role, Vocabulary


def interpret_workers(loading: Loading, vocabulary: Vocabulary) -> Loading:
    """Return the loading with the samples and stacks of its workers inside batches."""
    stacks: list[str] = []
    tables, locked = [np.empty(0, SAMPLE)], [np.empty(0, bool)]
    for worker in loading.worker_samples:
        own = [_cut_inherited(stack, vocabulary) for stack in worker.samples.stacks]
        rows = worker.samples.rows
        leaf = [stack.split(";", 1)[0] for stack in own]
        frames = LeafFrames.match_lines(vocabulary, leaf)
        locked.append(find_locked_workers(rows, frames)[worker.inside])
        table = np.empty(int(worker.inside.sum()), SAMPLE)
        table["time"] = rows["time"][worker.inside]
        table["stack"] = rows["stack"][worker.inside] + len(stacks)
        tables.append(table)
        stacks += own
    all_locked = np.concatenate(locked)
    return replace(
        loading,
        samples=np.concatenate(tables),
        stacks=tuple(stacks),
        still=float(all_locked.mean()) if len(all_locked) else 0.0,
        worker_samples=(),
    )


def _cut_inherited(stack: str, vocabulary: Vocabulary) -> str:
    frames = stack.split(";")
    own = takewhile(lambda frame: not vocabulary.plays(Role.WORKER_ENTRY, frame), frames)
    return ";".join(own)
