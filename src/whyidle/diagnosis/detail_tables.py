"""Tables and the step picture of a report."""

from __future__ import annotations

from typing import Final

import numpy as np

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.device.model_flops_utilization import flops_ratio
from whyidle.analysis.device.operator_times import OperatorTime
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import (
    MAPS,
    count_batches,
    describe_stage,
    is_serial,
    stage_of,
)
from whyidle.analysis.lines.line_purposes import quote_line
from whyidle.analysis.lines.source_lines import frame_place
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.ranks.rank_scaling import exchange_end
from whyidle.diagnosis.rank_assignment import rank_groups, rank_rows
from whyidle.diagnosis.step_timeline import draw_step
from whyidle.model.buckets import REASONS
from whyidle.model.diagnosis import DetailTables, KernelRow, LineRow, Reason
from whyidle.model.documents.pipeline_tables import PipelineRow, PipelineStage
from whyidle.model.documents.rank_tables import WhatIf
from whyidle.model.pipeline_facts import Node, Pipeline

KERNEL_ROWS = 60


def build_details(job: Job, seen: Job) -> DetailTables:
    """Build tables of reasons, kernels and ranks and the step picture from ``seen``, the
    recordings that contain the device; step times come from the whole job."""
    steps, lead = job.lead_rank.steps, seen.lead_rank
    reasons = {
        reason: float(np.mean([facts.reasons[reason] for facts in seen.ranks]))
        for reason in REASONS
    }
    rows = rank_rows(seen)
    return DetailTables(
        reasons=[
            Reason(reason=reason, bucket=bucket, meaning=meaning, share=round(reasons[reason], 6))
            for reason, (bucket, meaning) in REASONS.items()
            if reasons[reason] > 0
        ],
        kernels=_operator_rows(lead) if lead.on_cpu else _kernel_rows(lead),
        groups=_operator_groups(lead) if lead.on_cpu else _kernel_groups(lead),
        picture=draw_step(lead),
        ranks=rows,
        rank_groups=rank_groups(seen, rows),
        what_if=find_what_ifs(seen),
        step_times_s=[round(float(s), 9) for s in (steps.end - steps.start) / 1e9],
        steady=[bool(steady) for steady in steps.steady],
        lines=_line_rows(job.lead_rank),
        pipelines=_pipeline_rows(job.lead_rank),
    )


def _pipeline_rows(facts: Facts) -> list[PipelineRow]:
    return [
        PipelineRow(
            consumer=pipeline.consumer,
            batches=pipeline.nodes[0].elements,
            stages=_pipeline_stages(pipeline, facts.rank),
        )
        for pipeline in facts.timeline.process.pipelines
        if pipeline.nodes and pipeline.nodes[0].elements
    ]


def _pipeline_stages(pipeline: Pipeline, rank: int | None) -> list[PipelineStage]:
    made = count_batches(pipeline.nodes)
    work = [
        node.ns / 1e9 / batches if batches else 0.0
        for node, batches in zip(pipeline.nodes, made, strict=True)
    ]
    total = sum(work) or 1.0
    return [
        _pipeline_stage(pipeline, node, spent, spent / total, rank)
        for node, spent in zip(pipeline.nodes, work, strict=True)
    ]


def _pipeline_stage(
    pipeline: Pipeline, node: Node, batch_s: float, share: float, rank: int | None
) -> PipelineStage:
    stage = stage_of(pipeline, node)
    place = frame_place(stage.line, rank) if stage and stage.line else None
    calls = node.parallelism if MAPS.match(node.name) else None
    return PipelineStage(
        name=node.name,
        call=describe_stage(stage),
        file=place.file if place else None,
        line=place.line if place else None,
        elements=node.elements,
        batch_s=round(batch_s, 9),
        share=round(share, 6),
        at_a_time=1 if is_serial(node) else None if calls is None else round(calls),
        tunable=node.tunable,
        buffered=node.buffered if node.buffer else None,
        buffer=round(node.buffer) if node.buffer else None,
    )


def _line_rows(facts: Facts) -> list[LineRow]:
    steps, sources = max(facts.step_count, 1), facts.timeline.sources
    return [
        LineRow(
            place=line.place,
            text=quote_line(sources, line.place, line.purpose),
            purpose=line.purpose.value,
            seconds=round(line.time / 1e9 / steps, 9),
            share=round(line.time / max(facts.scope.total, 1), 6),
            reporting=line.only_reports,
            device_waits=None if line.waits is None else round(line.waits / line.time, 6),
        )
        for line in facts.lines[:60]
    ]


def _kernel_rows(facts: Facts) -> list[KernelRow]:
    rows = facts.kernels
    if not len(rows):
        return []
    names, index, counts = np.unique(
        facts.device.name[rows], return_inverse=True, return_counts=True
    )
    totals = np.bincount(index, weights=facts.durations_s(rows))
    listed = []
    for i in np.argsort(-totals)[:KERNEL_ROWS]:
        kind = facts.kernel_classes[int(names[i])]
        listed.append(
            KernelRow(
                name=facts.timeline.names[names[i]],
                group=kind.group,
                precision=kind.precision,
                tensor_core=kind.tensor,
                count=int(counts[i]),
                total_s=float(totals[i]),
                share=float(totals[i] / facts.scope_s),
                mean_us=float(totals[i] / counts[i] * 1e6),
                flops_ratio=flops_ratio(facts, rows[index == i])
                if kind.tensor is not None
                else None,
            )
        )
    return listed


def _recorded_operators(facts: Facts) -> list[OperatorTime]:
    source = facts.burst or facts  # stack samples of a watched process name no operators
    return source.operators if source.timeline.source.format != "probe" else []


def _operator_rows(facts: Facts) -> list[KernelRow]:
    return [
        KernelRow(
            name=f"{one.name} ({one.phase})",
            group=one.group,
            precision=None,
            tensor_core=None,
            count=one.count,
            total_s=one.total_s,
            share=one.share * facts.attribution["compute"],
            mean_us=one.total_s / one.count * 1e6,
        )
        for one in _recorded_operators(facts)[:KERNEL_ROWS]
    ]


def _operator_groups(facts: Facts) -> dict[str, float]:
    shares: dict[str, float] = {}
    for one in _recorded_operators(facts):
        shares[one.group] = shares.get(one.group, 0.0) + one.share
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _kernel_groups(facts: Facts) -> dict[str, float]:
    rows = facts.kernels
    names, index = np.unique(facts.group[rows], return_inverse=True)
    totals = np.bincount(index, weights=facts.durations_s(rows), minlength=len(names))
    whole = float(np.sum(totals)) or 1.0
    shares = {str(n): float(t / whole) for n, t in zip(names, totals, strict=True)}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


LEAST_STEPS: Final = 3


def find_what_ifs(job: Job) -> list[WhatIf]:
    """Predict the step without the rank that the others wait for, and with a link twice as fast;
    nothing where collectives of all ranks do not match in ``LEAST_STEPS`` steps.

    A rank's own work is its step without what holds it up in collectives. A collective is ready
    when all ranks have done the device work that they launched before it.
    """
    meetings, step = job.meetings, job.meetings.step
    alike = meetings.present.all(axis=1) & meetings.leave_together & (step >= 0).all(axis=1)
    rows = np.flatnonzero(alike & (step == step[:, :1]).all(axis=1))
    rows = rows[np.argsort(meetings.arrival[rows].max(axis=1), kind="stable")]
    numbers, counts = np.unique(step[rows, 0], return_counts=True)
    if len(job.ranks) < 2 or len(numbers) < LEAST_STEPS or np.ptp(counts):
        return []
    table = rows[np.argsort(step[rows, 0], kind="stable")].reshape(len(numbers), -1)
    worked = [_work_until(facts, meetings.start[table, i] - meetings.offset[i], numbers)
              for i, facts in enumerate(job.ranks)]  # fmt: skip
    ready, own = (np.stack(parts) for parts in zip(*worked, strict=True))
    times = np.median(meetings.transfer_ns[table], axis=0) / 1e9

    def simulate(ranks: list[int], speed: float = 1.0) -> float:
        ends = exchange_end(ready[ranks].max(axis=0), times / speed)
        return float(np.maximum(own[ranks].max(axis=0), ends).mean())

    everyone, late = list(range(len(job.ranks))), job.imbalance.late_rank
    measured = float(np.mean([facts.step_s for facts in job.ranks]))
    base = simulate(everyone)
    changed = {"with a link twice as fast": simulate(everyone, 2.0)}
    if late is not None:
        others = [index for index in everyone if index != late.index]
        changed = {f"without rank {late.rank}": simulate(others), **changed}
    return [WhatIf(name=name, step_s=measured - base + s) for name, s in changed.items()]


def _work_until(facts: Facts, start: F64, numbers: I64) -> tuple[F64, F64]:
    """The own work of each step before these starts, and all of it, s."""
    begin, end = facts.steps.start[numbers], facts.steps.end[numbers]
    first = np.broadcast_to(begin[:, None], start.shape)
    until = np.maximum(_ready(facts, np.rint(start).astype(np.int64)), first)
    held = facts.held_up.length_inside(first.ravel(), until.ravel()).reshape(start.shape)
    own = end - begin - facts.held_up.length_inside(begin, end)
    return (until - first - held) / 1e9, own / 1e9


def _ready(facts: Facts, start: I64) -> I64:
    """When the work that was launched before these collectives had ended, at most their start: a
    link that is busy lets them start later."""
    device, call = facts.device, facts.launches.call
    launched = pick_rows(facts.timeline.host.start, call, -1)
    exchange = np.flatnonzero((facts.group == "communication") & (call >= 0))
    work = np.flatnonzero((facts.group != "communication") & (call >= 0))
    if not len(exchange) or not len(work):  # a CPU: the exchange waits in the training thread
        return start
    work = work[np.argsort(launched[work], kind="stable")]
    ends = np.maximum.accumulate(device.end[work])
    exchange = exchange[np.argsort(device.start[exchange], kind="stable")]
    found = np.searchsorted(device.start[exchange], start).clip(0, len(exchange) - 1)
    before = np.searchsorted(launched[work], launched[exchange[found]]) - 1
    return np.where(before >= 0, np.minimum(ends[before], start), start)
