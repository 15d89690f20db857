"""Evidence and predictions for the job's own code that processes samples."""

from __future__ import annotations

from typing import Any

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.cpu_affinity import kept_waiting
from whyidle.analysis.input.batch_waits import BatchWaits
from whyidle.analysis.input.sample_work import SampleWork
from whyidle.analysis.intervals import union_of
from whyidle.analysis.steps.forecast import from_gains, predict_removal
from whyidle.model.cause import MOSTLY
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.number_text import format_part
from whyidle.model.roles import Role

LEAST = 0.3
"""least share of the loading at a line that a headline names"""
LEFT = (0.2, 0.05, 0.0)
"""part of the work in Python loops, or on single rows or texts, that remains if whole arrays are
processed, or if it is done before training (low, expected, high gain). An interpreted operation
takes some 50 ns, an array element 1 to 5 ns, and batches must still be collated"""

INDEX_S = (15e-6, 0.4e-6, 0.25e-9)
"""seconds to index a batch of a table: fixed, per row and per byte. Batches of 8 to 1,024 rows of
100 to 12,000 bytes took 19 to 400 us (PyTorch 2.13, one virtual core)"""
ROW_S = (20e-6, 1e-9)
"""most seconds to load a prepared sample, fixed and per byte: 40 to 80,000 bytes took 4 to 64 us"""

CONVERSION = {"objects": (0.5, 0.85, 0.95), "rows": (0.0, 0.4, 0.75), "single": (0.5, 0.9, 0.97)}
"""part of the conversion time in ``datasets`` that arrays of whole batches save: lower bound,
expected, upper bound. For 32 rows of 512 numbers, arrays were 7 to 10 times as fast as Python
objects, 1 to 4 times as fast as rows in a DataLoader, 20 to 30 times as fast as single rows"""


def describe_conversion(conversion: str, share: float) -> dict[str, Any]:
    """Return the fields of ``InputFacts`` about conversions that take a ``share`` of the step."""
    if not conversion:
        return {}
    low, expected, high = (part * share for part in CONVERSION[conversion])
    method = "the loading without conversions of single values or rows"
    converted = predict_removal(low, high, method, expected)
    return {"conversion": conversion, "converted": converted}


def describe_table(facts: Facts, calls: BatchWaits, blocked: float) -> dict[str, Any]:
    """Return the fields of ``InputFacts`` for a loader in this process that takes rows of tensors
    one by one, where one index could take a batch. ``blocked`` is its share of the step. This
    includes garbage collection of the row objects."""
    plays, loading = facts.timeline.vocabulary.plays, facts.timeline.loading
    loaders = [loader for loader in loading.loaders if not loader.workers]
    tables = [plays(Role.TABLE_CODE, f"{loader.making};{loader.collating}") for loader in loaders]
    rows = max((loader.batch_size or 0 for loader in loaders), default=0)
    if not tables or not all(tables) or rows <= 1 or not loading.batch_bytes:
        return {}
    windows = union_of(calls.start, calls.end)
    collecting = facts.share_of(facts.time_of("gc") & windows & facts.host_scope)
    spent = min(1.0, blocked + collecting)
    index_s = INDEX_S[0] + INDEX_S[1] * rows + INDEX_S[2] * loading.batch_bytes
    now_s = float(calls.durations_s.sum()) / max(len(calls), 1)
    low, expected, high = (
        spent * max(0.0, 1.0 - times * index_s / now_s) for times in (2.0, 1.0, 0.5)
    )
    method = "the loading with one index for each batch"
    return {"table_rows": rows, "removed": predict_removal(low, high, method, expected)}


def describe_work(work: SampleWork | None, time: str = "it") -> str:
    """Return the costliest line and its share of ``time``, for the end of a headline."""
    if work is None or work.lines[0][1] < LEAST:
        return ""
    part = format_part(work.lines[0][1]).removesuffix("it")
    return f", {part}{time} {work.describe_spot()}"


def line_evidence(facts: Facts, work: SampleWork | None) -> tuple[Evidence, ...]:
    """Return the user's costliest line, how often it runs, and the time per sample."""
    if work is None:
        return ()
    share, loading = work.lines[0][1], facts.timeline.loading
    evidence = [
        make_evidence("line with most of the loading", work.describe_line(), None, source="stacks"),
        make_evidence("its share of the loading", share, "ratio", source="stacks"),
        make_evidence("it runs", work.frequency, None, source="source"),
        make_evidence("loading in the job's own code", work.own, "ratio", source="stacks"),
    ]
    if (seconds := facts.workers.sample_s) is not None:
        evidence.append(make_evidence("time per sample", seconds, "s", source="batches"))
    if loading.batch_bytes:
        evidence.append(make_evidence("bytes of a batch", loading.batch_bytes, "bytes"))
    return tuple(evidence)


def describe_samples(work: SampleWork | None, share: float) -> dict[str, Any]:
    """Return the fields of ``InputFacts`` about user code that takes this ``share`` of the step."""
    if work is None or work.own < MOSTLY:
        return {}
    parts = (work.costliest, _replaced_part(work), _replaced_part(work))  # careful: one function
    gains = [(1.0 - left) * part * share for left, part in zip(LEFT, parts, strict=True)]
    method = "the loading without the work of the job's own code"
    return {
        "kind": work.kind or "",
        "looped": work.looped,
        "per_sample": work.per_sample,
        "varies": work.varies,
        "line": work.describe_line(),
        "removed": predict_removal(gains[0], gains[2], method, gains[1]),
    }


def predict_without_work(facts: Facts, work: SampleWork | None, share: float) -> Predicted | None:
    """The gain without the user's code; the upper bound removes the whole loading."""
    if work is None or work.own < MOSTLY:
        return None
    loading, now_s = facts.timeline.loading, facts.workers.sample_s
    rows = max((each.batch_size or 1 for each in loading.loaders), default=1)
    row_s = ROW_S[0] + ROW_S[1] * (loading.batch_bytes or 0) / rows
    known = now_s and loading.batch_bytes and not work.looped  # what a loop computes takes time
    left = min(LEFT[0], row_s / (now_s or 1.0)) if known else LEFT[0]
    gains = ((1.0 - left) * work.costliest * share, _replaced_part(work) * share, share)
    return from_gains(gains, "the loading without the job's own code")


def _replaced_part(work: SampleWork) -> float:
    """The part of the loading that ends with the user's code. Making whole batches instead of
    single samples also saves the library's stacking."""
    return 1.0 if work.per_sample else work.own


def describe_worker_samples(facts: Facts, work: SampleWork | None) -> dict[str, Any]:
    """Return the same fields if workers run the user's code."""
    removed = predict_without_worker_code(facts, work)
    if work is None or removed is None:
        return {}
    return describe_samples(work, 0.0) | {"removed": removed}


def predict_without_worker_code(facts: Facts, work: SampleWork | None) -> Predicted | None:
    """The gain if the user's code in workers costs almost nothing. Lower bound: without its
    costliest function. Upper bound: the training thread never waits."""
    if work is None or work.own < MOSTLY:
        return None
    workers, waits, gains = facts.workers, facts.workers.waiting_share, []
    for part, left in zip((work.costliest, work.own), LEFT, strict=False):
        saved = (1.0 - left) * part * workers.mean_of("cpu")
        made = max(0.0, workers.batch_time + workers.pickle_time - saved)
        cpu = max(0.0, workers.mean_of("process_cpu") - saved)
        stall = workers.predict_stall(workers.count, made, cpu)
        gains.append(waits - workers.remaining_share(stall))
    most = min(waits + kept_waiting(facts), 1.0)
    return from_gains((gains[0], max(gains), most), "workers without the job's own code")
