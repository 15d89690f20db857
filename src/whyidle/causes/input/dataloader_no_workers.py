"""The DataLoader works in the training process."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import remove
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

LEAST_SHARE = 0.01
"""share of the step below which the loader is not worth a word"""


@cause(
    "The DataLoader works in the training process",
    bucket="input",
    needs=("device_time", "loader_marks", "steps"),
)
def dataloader_no_workers(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``DataLoader(num_workers=0)``: samples are read, decoded and collated by the same thread that
    launches the GPU's work, so the GPU waits for every batch.

    Why it costs
    ------------
    Loading and computing take turns instead of overlapping: the step lasts their sum, not their
    maximum.

    How it is detected
    ------------------
    The recording holds calls of ``_SingleProcessDataLoaderIter.__next__``, and the device is idle
    during them. Lost time is that idle time; at most the whole time inside the calls.

    What looks alike
    ----------------
    Calls of ``_MultiProcessingDataLoaderIter.__next__`` that wait are too few or too slow workers.
    A dataset that is already in memory has such calls too, but they cost nothing, and nothing is
    reported. Preprocessing outside the DataLoader shows as ``heavy-cpu-transform``.

    What to do
    ----------
    Give the DataLoader workers, keep them between epochs, and pin its batches. Do not where the
    dataset is an ``IterableDataset`` that does not divide its samples among workers: every worker
    would yield all of them.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Enable asynchronous data loading and augmentation".
    """
    rows = facts.named(r"_SingleProcessDataLoaderIter\.__next__")
    if not len(rows):
        return None
    host = facts.timeline.host
    blocked = facts.share("loader")
    if blocked < LEAST_SHARE:
        return None
    waits = (host.end[rows] - host.start[rows]) / 1e9
    ceiling = max(blocked, min(1.0, float(waits.sum()) / facts.scope_s))
    per_step = float(waits.sum()) / facts.step_count
    workers = int(np.ceil(per_step / max(facts.step_s - per_step, 1e-9)))
    return Proof(
        headline=f"The DataLoader has no workers: each batch holds up the step for "
        f"{per_step * 1e3:.3g} ms",
        low=blocked * 0.8,
        high=ceiling,
        predicted=remove(blocked * 0.8, ceiling, "P1 without storage model: T - W", blocked),
        evidence=(
            Evidence(
                quantity="time in DataLoader next per step",
                value=per_step,
                unit="s",
                window="steps in scope",
                samples=len(rows),
                source="annotation",
            ),
            Evidence(
                quantity="device idle meanwhile, share of step",
                value=blocked,
                unit="ratio",
                window="steps in scope",
                samples=facts.step_count,
                source="attribution",
            ),
        ),
        confidence=0.95,
        where=tuple(place for place in [facts.places.of(int(rows[0]))] if place),
        facts={"workers": workers},
    )
