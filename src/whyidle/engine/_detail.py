"""What pictures and tables need beyond the verdict."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.analysis.utilization import flops_ratio
from whyidle.engine._picture import picture
from whyidle.engine._ranks import rank_rows
from whyidle.model.buckets import REASONS
from whyidle.model.diagnosis import Detailed, KernelRow, Reason

KERNEL_ROWS = 60


def detail(job: Job) -> Detailed:
    """Reasons, kernels, ranks and the picture of a typical step."""
    lead = job.lead
    reasons = {
        reason: float(np.mean([facts.reasons[reason] for facts in job.ranks])) for reason in REASONS
    }
    return Detailed(
        reasons=[
            Reason(reason=reason, bucket=bucket, meaning=meaning, share=round(reasons[reason], 6))
            for reason, (bucket, meaning) in REASONS.items()
            if reasons[reason] > 0
        ],
        kernels=_kernels(lead),
        groups=_groups(lead),
        picture=picture(lead),
        ranks=rank_rows(job),
        step_times_s=[round(float(s), 9) for s in (lead.steps.end - lead.steps.start) / 1e9],
        steady=[bool(steady) for steady in lead.steps.steady],
    )


def _kernels(facts: Facts) -> list[KernelRow]:
    rows = facts.kernels
    if not len(rows):
        return []
    names, index, counts = np.unique(
        facts.device.name[rows], return_inverse=True, return_counts=True
    )
    totals = np.bincount(index, weights=facts.seconds(rows))
    listed = []
    for i in np.argsort(-totals)[:KERNEL_ROWS]:
        kind = facts.classes[int(names[i])]
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


def _groups(facts: Facts) -> dict[str, float]:
    rows = facts.kernels
    names, index = np.unique(facts.group[rows], return_inverse=True)
    totals = np.bincount(index, weights=facts.seconds(rows), minlength=len(names))
    whole = float(np.sum(totals)) or 1.0
    shares = {str(n): float(t / whole) for n, t in zip(names, totals, strict=True)}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
