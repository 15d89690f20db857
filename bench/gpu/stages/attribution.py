"""Shares of the step by whyidle's two ways of seeing the device, against CUPTI's own intervals.

A job trains under ``whyidle run --profile look`` and has PyTorch's profiler record some consecutive
steps of its second half. Of these steps there are three accounts: whyidle's events (in a sample of
them), whyidle's reading of the trace (as it reads a burst), and the union of CUPTI's intervals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu.job_run import find_recording
from bench.gpu.raw_trace import RawTrace, clip_spans, total_length
from bench.gpu.stage import Item, Stage
from bench.gpu.target import Target
from bench.gpu.twins import Twin, find_twin, run_twin
from whyidle.analysis.device.device_timestamps import read_progress
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.burst_evidence import read_bursts
from whyidle.model.timeline import Timeline
from whyidle.readers import kineto, probe

NAMES = ("loader-without-workers", "read-in-each-step", "compute-bound")
SHORT = NAMES[1:2]
GPU_STEPS, EMULATED_STEPS = 200, 40
"""traced at most"""
LEAST_SHARE = 0.005
"""buckets with less are left out of the table"""
LONGER = 1.5
"""so that a burst is over when the trace begins, with the second half of the job"""
START_S = 11.0
"""seconds of an item beyond its training: start, writing and reading of the trace"""


def compare_accounts(target: Target, twin: Twin) -> dict[str, Any]:
    """Run one job, and compare the accounts of its traced steps."""
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-") as name:
        folder = Path(name)
        trace = folder / "trace.json"
        most = EMULATED_STEPS if target.emulated else GPU_STEPS
        environment = {"STEP_TRACE": str(trace), "STEP_TRACE_STEPS": str(most)}
        run_twin(
            target, twin, profile="look", environment=environment, store=folder / "store",
            seconds=LONGER * target.job_s,
        )  # fmt: skip
        return read_accounts(find_recording(folder / "store"), trace)


def read_accounts(recording: Path, trace: Path) -> dict[str, Any]:
    """The three accounts of the steps of a trace, and the shares of the whole run.

    Raises:
        ValueError: the trace or the recording holds too little.
    """
    raw = RawTrace.read(trace)
    (process,) = probe.trained_processes(recording)
    watched = probe.load(recording / f"{process}.spans")
    bursts = read_bursts(recording, watched)
    traced, run = Facts(kineto.load(trace)), Facts(watched)
    return {
        "traced_steps": raw.steps,
        "same_windows": compare_windows(watched, raw),
        "same_steps": compare_reading(traced, raw),
        "shares_by_trace": _rounded_shares(traced),
        "shares_by_events_whole_run": _rounded_shares(run),
        "steps_of_whole_run": run.step_count,
        "shares_by_burst": _rounded_shares(Facts(bursts[0])) if bursts else None,
        "burst": bursts[0].burst.window if bursts and bursts[0].burst else None,
    }


def _rounded_shares(facts: Facts) -> dict[str, float]:
    return {bucket: round(share, 4) for bucket, share in facts.attribution.items()}


def compare_windows(watched: Timeline, raw: RawTrace) -> dict[str, Any] | None:
    """Events against CUPTI in the very steps in which there were events: the time from an event
    after one optimizer step to the event after the next."""
    rows = watched.marks
    host = raw.to_trace_us(rows["host"] + watched.base_ns)
    chosen = np.zeros(len(rows), bool)
    length = kernels = busy = late = 0.0
    first, last = raw.launched[0], raw.done[-1]
    for window in np.unique(rows["window"]):
        mine = rows["window"] == window
        if host[mine][0] < first or host[mine][-1] > last:
            continue
        begin, end = (raw.event_moment(host[mine][index]) for index in (0, -1))
        if end <= begin:
            continue
        chosen |= mine
        length += end - begin
        kernels += total_length(clip_spans(raw.kernels, begin, end))
        busy += total_length(clip_spans(raw.busy, begin, end))
        late += raw.late_length(begin, end)
    if not length:
        return None
    progress = read_progress(replace(watched, marks=rows[chosen]))
    return {
        "windows": len(progress),
        "length_ms_events": float(progress.span.sum()) / 1e6,
        "length_ms_cupti": length / 1e3,
        "late_ratio_events": progress.late_share,
        "late_ratio_cupti": late / length,
        "work_ratio_events_at_least": progress.fed_share,
        "work_ratio_cupti": busy / length,
        "kernel_ratio_cupti": kernels / length,
    }


def compare_reading(traced: Facts, raw: RawTrace) -> dict[str, Any]:
    """How whyidle reads the trace against CUPTI's intervals, in the steps that whyidle counts
    in it."""
    base_ns = traced.timeline.source.origin_ns
    scope = [
        ((begin + base_ns) / 1e3, (end + base_ns) / 1e3)
        for begin, end in zip(traced.scope.start, traced.scope.end, strict=True)
    ]
    length = total_length(scope)
    kernels, busy = (
        sum(total_length(clip_spans(spans, *step)) for step in scope) / length
        for spans in (raw.kernels, raw.busy)
    )
    return {
        "steps": traced.step_count,
        "work_ratio_whyidle": traced.busy_ratio,
        "work_ratio_cupti": busy,
        "kernel_ratio_cupti": kernels,
    }


def list_items(target: Target) -> list[Item]:
    """One item per job."""
    return [
        Item(
            name,
            partial(compare_accounts, target, find_twin(name)),
            LONGER * target.job_s + START_S,
        )
        for name in (SHORT if target.short else NAMES)
    ]


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The same steps by each account, then the shares of every bucket."""
    yield (
        "A job trains under whyidle while PyTorch's profiler records some consecutive steps. "
        "*Events*: what whyidle's events say of those recorded steps in which it placed some, "
        "against the union of CUPTI's intervals from the first to the last event of the same "
        "steps. *Trace*: what whyidle reads from the trace, against the union of CUPTI's intervals "
        "in the same steps. Differences are in points of the step; events tell how much of the "
        "time the device had work at least."
    )
    yield ""
    yield "| job | account | steps | of | whyidle | CUPTI | points |"
    yield "|---|---|--:|---|--:|--:|--:|"
    for name, result in results.items():
        windows, reading = result["same_windows"], result["same_steps"]
        if windows:
            count = windows["windows"]
            late = windows["late_ratio_events"], windows["late_ratio_cupti"]
            work = windows["work_ratio_events_at_least"], windows["work_ratio_cupti"]
            yield f"| {name} | events | {count} | waiting for a batch {_row(*late)}"
            yield f"| {name} | events | {count} | work on the device, at least {_row(*work)}"
        else:
            yield f"| {name} | events | 0 | no event in the recorded steps | – | – | – |"
        work = reading["work_ratio_whyidle"], reading["work_ratio_cupti"]
        yield f"| {name} | trace | {reading['steps']} | work on the device {_row(*work)}"
    yield ""
    yield from _share_lines(results)


def _row(ours: float | None, theirs: float) -> str:
    if ours is None:
        return f"| – | {theirs:.1%} | – |"
    return f"| {ours:.1%} | {theirs:.1%} | {100 * (ours - theirs):+.1f} |"


def _share_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield (
        "Shares of the step, each by what saw it. These are other steps, as listed below, so the "
        "differences hold what those steps differ in, too. Events leave what they cannot tell "
        "apart as unknown."
    )
    yield ""
    yield "| job | bucket | events | burst | trace | burst against trace, points |"
    yield "|---|---|--:|--:|--:|--:|"
    for name, result in results.items():
        burst, trace = result["shares_by_burst"] or {}, result["shares_by_trace"]
        for bucket, traced in trace.items():
            events, seen = result["shares_by_events_whole_run"][bucket], burst.get(bucket)
            if max(events, seen or 0.0, traced) >= LEAST_SHARE:
                yield f"| {name} | {bucket} | {events:.1%} {_row(seen, traced)}"
    yield ""
    for name, result in results.items():
        yield (
            f"* {name}: events in {result['steps_of_whole_run']} steady steps of the run; "
            f"{result['burst'] or 'no burst'}; trace of {result['traced_steps']} consecutive "
            "steps in the run's second half"
        )


STAGE = Stage("attribution", "Shares of the step, by three accounts", list_items, table_lines)
