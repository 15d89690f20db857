"""Preparing data takes more of the CPU than the training loop has to spare."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.cores import mostly_waits
from whyidle.analysis.decoding import decoded, decoded_by_workers, stored, stored_by_workers
from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains, hidden_loading, remove, unhidden_loading
from whyidle.analysis.hot import Hot, hot_function
from whyidle.analysis.intervals import Intervals, union
from whyidle.analysis.loader import handoff_s, nexts
from whyidle.analysis.sampling.share_error import bounds
from whyidle.causes.input._waiting import (
    CHEAPER,
    evidence,
    leading_once,
    leading_once_by_workers,
    prepared_once,
)
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.proof_facts import InputFacts
from whyidle.model.roles import Role
from whyidle.model.units import lasting

LEAST_SHARE = 0.01
"""share of the step below which preprocessing is not worth a word"""


@cause(
    "Data is prepared on the CPU while the GPU waits",
    bucket="input",
    needs=("device_time", "python_stacks"),
)
def heavy_cpu_transform(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Decoding, resizing, augmenting or tokenising runs in the training process between the GPU's
    work, or is so much that even eight loader workers could not hide it.

    Why it costs
    ------------
    The GPU has nothing to do until the next input is ready.

    How it is detected
    ------------------
    The device is idle while the launching thread is inside functions of image, video, audio or
    text libraries, or inside a function whose name says that it prepares data, and which launches
    no kernel. Inside a DataLoader without workers only what eight workers could not hide counts;
    the rest is ``dataloader-no-workers``. The expected gain is what workers would hide; where stack
    samples of a watched process tell the share, the interval holds their error.

    Where loader workers were watched from within: they mostly work, and the wait that is left with
    as many of them as the cores allow counts. Careful is a third of their CPU time less, expected
    half of it.

    What looks alike
    ----------------
    Augmentation on the GPU launches kernels and is not counted. Time inside the DataLoader that
    workers can hide belongs to ``dataloader-no-workers``. Transforms in worker processes are
    not in a profiler's recording of the training process. The same result in every epoch is
    ``repeated-deterministic-preprocessing``.

    What to do
    ----------
    Move the work into the Dataset, so that workers do it ahead of time; then make it cheaper
    (decode at reduced size, crop before resizing, faster libraries) or, where the GPU has time to
    spare, do it there.

    References
    ----------
    Mohan et al., VLDB 2021; Isenko et al., "Where Is My Training Bottleneck?" (PRESTO), SIGMOD
    2022.
    """
    if facts.workers.kind == "work":
        return _from_within(facts)
    outside = facts.part("preprocess")
    spent = facts.share_of(outside)
    left = _left_to_workers(facts)
    if max(spent, left) < LEAST_SHARE:
        return None
    hot = hot_function(facts, _windows(facts, spent, left))
    cost = [seconds / facts.step_s for seconds in handoff_s(facts, facts.step_count)]
    low, expected, high = hidden_loading(spent, spent, (cost[0], cost[1]), facts.busy_ratio or 0.0)
    least, most = bounds(facts, outside)
    low, high = max(low, 0.0) * least / max(spent, 1e-9), min(high + most - spent, 1.0)
    share = min(spent + left, 1.0)
    expected = min(expected + left / 2, share)
    predicted = remove(low, max(high + left, expected), "P1: prepared ahead by workers", expected)
    return Proof(
        headline=_headline(facts, (spent, left), hot),
        low=low,
        high=share,
        predicted=predicted,
        evidence=(
            measured("device idle while data is prepared, share of step", spent, "ratio"),
            measured("loading that eight workers could not hide, share of step", left, "ratio"),
            *([measured("most of it happens in", hot.name, None, source="stacks")] if hot else []),
        ),
        confidence=0.85,
        where=tuple(place for place in (_user_place(facts), hot and hot.place) if place),
        facts=InputFacts(
            compute=1.0 if facts.on_cpu else facts.share("compute"),
            function=hot.name if hot else None,
            media=decoded(facts, _windows(facts, spent, left)),
            storage=stored(facts, _windows(facts, spent, left)),
            chained=_chained(facts),
            same_again=facts.workers.same_again and left >= LEAST_SHARE,
            cached=prepared_once(left),
            leading=leading_once(facts, left) if left >= LEAST_SHARE else None,
        ),
    )


def _from_within(facts: Facts) -> Proof | None:
    """Transforms in loader workers."""
    workers = facts.workers
    left = workers.remaining(workers.stall(workers.best))
    if left < LEAST_SHARE or workers.same_again:
        return None
    gains = []
    for share in CHEAPER:
        saved = share * workers.mean("cpu")
        made = workers.wall + workers.pickle - saved
        work = max(0.0, workers.mean("process_cpu") - saved)
        gains.append(max(0.0, left - workers.remaining(workers.stall(workers.best, made, work))))
    place = f", most of it in {workers.hot[0].function}" if workers.hot else ""
    return Proof(
        headline=f"Preparing a batch takes {lasting(workers.mean('cpu'))} of CPU{place}",
        low=gains[0],
        high=left,
        predicted=from_gains((gains[0], gains[1], gains[2]), "P1: cheaper preparation"),
        evidence=evidence(workers, "cpu", "delay", "collate"),
        confidence=0.85,
        where=workers.where,
        facts=InputFacts(
            compute=1.0 if facts.on_cpu else facts.share("compute"),
            same_again=False,
            inside=True,
            media=decoded_by_workers(facts),
            storage=stored_by_workers(facts),
            chained=_chained(facts),
            leading=leading_once_by_workers(workers),
        ),
    )


def _chained(facts: Facts) -> bool:
    """Whether a dataset holds a list of transforms, which could come in another order."""
    return any(loader.chained for loader in facts.timeline.loading.loaders)


def _left_to_workers(facts: Facts) -> float:
    """Share of the step that a DataLoader without workers would still cost with eight. One that
    mostly waits transforms little, and more than eight can wait at once."""
    if mostly_waits(facts):
        return 0.0
    calls = nexts(facts, Role.BATCH_INLINE)
    blocked = float(calls.exposed.sum()) / facts.scope_s
    work = float(calls.seconds.sum()) / facts.scope_s
    return min(unhidden_loading(work, 1.0 - blocked), blocked)


def _windows(facts: Facts, spent: float, left: float) -> Intervals:
    if spent >= left:
        return facts.part("preprocess")
    calls = nexts(facts, Role.BATCH_INLINE)
    return union(calls.start, calls.end)


def _headline(facts: Facts, shares: tuple[float, float], hot: Hot | None) -> str:
    spent, left = shares
    place = f", most of it in {hot.place.function}" if hot and hot.place else ""
    if spent < left:
        calls = nexts(facts, Role.BATCH_INLINE)
        loads_s = float(calls.seconds.sum()) / facts.step_count
        return f"Loading takes {lasting(loads_s)} a step, more than eight workers hide{place}"
    share = min(spent + left, 1.0)
    return f"Data is prepared on the CPU for {lasting(share * facts.step_s)} per step{place}"


def _user_place(facts: Facts) -> Place | None:
    rows = facts.host.rows(Role.PREPROCESS)
    rows = rows[facts.scope.covers(facts.timeline.host.start[rows])]
    if not len(rows):
        return None
    host = facts.timeline.host
    longest = rows[np.argmax(host.end[rows] - host.start[rows])]
    return facts.places.of(int(longest))
