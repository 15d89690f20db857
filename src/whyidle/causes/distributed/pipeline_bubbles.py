"""Pipeline stages wait for activations or gradients of their neighbours."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.ranks.collectives import POINT_TO_POINT
from whyidle.analysis.ranks.exposed_communication import stage_share
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.ranks.rank_groups import groups_of
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import DistributedFacts

UNEVEN = 0.5
"""share of the waiting from which one stage waits less than all others because it is too long"""

FILLED = 0.8
"""expected share of that gain: micro-batches of half the size use the device less well"""


@cause(
    "Pipeline stages wait for each other",
    bucket="communication",
    needs=("device_time", "steps"),
    scope="job",
)
def pipeline_bubbles(job: Job) -> Proof | None:
    """What it means
    ----------------
    A stage of the pipeline has nothing to do until the activations of the stage before it, or the
    gradients of the stage after it, have arrived: a bubble.

    Why it costs
    ------------
    While the pipeline fills and drains, all stages but one wait. With p stages and m micro-batches
    a step has (p - 1) / (m + p - 1) of it as bubbles, more where stages are uneven: all wait for
    the longest.

    How it is detected
    ------------------
    The recording names sends and receives between single ranks (``nccl:send``, ``nccl:recv``,
    batched ones), and the next work was queued while no other kernel ran. The shortest transfer
    counts as the time that each needs anyway. With several stages, what the stage that waits least
    waits is the bubble of the schedule; the rest is uneven stages. A receiving kernel without the
    call that launched it is not evidence, as an all-to-all consists of the same kernels. Twice the
    micro-batches turn a bubble share b into b / (2 - b).

    What looks alike
    ----------------
    All-to-all exchanges of experts and other collectives are ``exposed-gradient-comm``. A rank that
    is late for collectives is ``rank-workload-imbalance`` or ``late-rank``.

    What to do
    ----------
    Use more micro-batches per step, an interleaved or zero-bubble schedule, and stages of equal
    time: the first also embeds tokens, the last also computes the loss.

    References
    ----------
    Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM", SC 2021. Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
    """
    waits = np.array([stage_share(facts) for facts in job.ranks])
    moved = np.array([_transfer_share(job, index) for index in range(len(job.ranks))])
    lost, sure = float(waits.mean()), float(np.maximum(waits - moved, 0.0).mean())
    if lost < LEAST_SHARE:
        return None
    stages = _by_stage(job, waits)
    least = min(stages, key=lambda name: stages[name]) if len(stages) > 1 else None
    longest = int(np.argmin(waits)) if least and stages[least] < UNEVEN * lost else None
    schedule = stages[least] if least else lost
    doubled = schedule / 2.0  # the same batch in twice the micro-batches fills in half the time
    return Proof(
        headline=_make_headline(job, lost, stages, least if longest is not None else None),
        low=sure / 2,
        high=lost,
        predicted=predict_removal(sure / 2, lost, "no stage waits", sure),
        evidence=(
            make_evidence("waits for other stages, mean share of step", lost, "ratio"),
            make_evidence("of it, beyond the shortest transfers", sure, "ratio"),
            *(
                make_evidence(f"{name}, share of step", share, "ratio")
                for name, share in stages.items()
            ),
        ),
        confidence=0.85 if least else 0.7,
        where=()
        if longest is None
        else (Place(file=None, line=None, function=None, rank=job.ranks[longest].rank),),
        facts=DistributedFacts(
            kinds={POINT_TO_POINT: lost},
            rank=None if longest is None else job.ranks[longest].rank,
            fewer=predict_removal(
                0.0, doubled, "b / (2 - b) with twice the micro-batches", doubled * FILLED
            ),
        ),
    )


def _make_headline(job: Job, lost: float, stages: dict[str, float], longest: str | None) -> str:
    waited = format_duration(lost * job.lead_rank.step_s)
    text = f"Pipeline stages wait {lost:.0%} of the step ({waited}) for each other"
    if longest is not None:
        return f"{text}; {longest} waits only {stages[longest]:.0%}: the others wait for it"
    alone = ", uneven stages included: only one stage was recorded"
    return text if len(stages) > 1 else f"{text}{alone}"


def _by_stage(job: Job, waits: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float]:
    """Mean waiting by stage where names tell the stage, else by rank."""
    stages = groups_of(job.ranks).get("stage")
    if stages:
        return {f"stage {name}": float(waits[rows].mean()) for name, rows in stages.items()}
    ranks = [index if facts.rank is None else facts.rank for index, facts in enumerate(job.ranks)]
    return {f"rank {rank}": float(wait) for rank, wait in zip(ranks, waits, strict=True)}


def _transfer_share(job: Job, index: int) -> float:
    """Share of the step that all sends and receives of a rank take if each is as short as its
    shortest."""
    facts = job.ranks[index]
    calls = facts.collectives
    inside = (calls.kind == POINT_TO_POINT) & facts.scope.contains_times(calls.start)
    if not inside.any():
        return 0.0
    shortest = int(calls.duration[inside].min()) * int(inside.sum())
    return shortest / max(facts.scope.total, 1)
