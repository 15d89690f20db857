"""Collectives run while no useful work does."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.ranks.exposed_communication import Exposure
from whyidle.analysis.ranks.gradient_exchanges import needed_share
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.proof_facts import DistributedFacts

FROM_FEWER_BYTES = 0.6
"""expected share of what half of the bytes, or of the exchanges, would save: other delays remain"""
LITTLE_HIDDEN = 0.05
"""overlap below which it is chance: DDP hides most of its buckets"""


@cause(
    "Communication is not hidden behind compute",
    bucket="communication",
    needs=("device_time", "steps"),
    scope="job",
)
def exposed_gradient_comm(job: Job) -> Proof | None:
    """What it means
    ----------------
    Collectives (all-reduce of gradients, all-to-all of embeddings, gathering of sharded weights)
    run while the device has no useful work.

    Why it costs
    ------------
    A kernel that moves data or waits for other ranks keeps the device busy without progress. The
    transfer could run while the backward pass still computes.

    How it is detected
    ------------------
    Exposed communication is time with a collective but no useful kernel, and short gaps that end
    with a collective. It counts only if the next kernel was already launched.

    With all ranks recorded, the shortest of the matched collectives is the transfer; the rest is
    waiting for a late rank, which has its own causes. Transfer beyond 1.5 times its median does not
    count either. With one rank, the lower bound covers only the time that recurs in every step.

    The prediction hides transfers behind the backward pass, which is two thirds of the compute
    time, if there is room (P7). The last bucket cannot be hidden. The lower bound hides half, with
    collectives a third slower; the upper bound removes all transfer.

    What looks alike
    ----------------
    The rank with the longest collectives waits for a late one (``rank-workload-imbalance``,
    ``late-rank``). One all-reduce per micro-batch is reported as ``allreduce-every-microstep``; a
    slow path between devices is reported as ``nccl-transport-fallback``.

    What to do
    ----------
    Many small collectives: let DistributedDataParallel send them in buckets. Few large ones without
    overlap: send fewer bytes (bf16 compression), or compute more per exchange (larger batch,
    accumulation). FSDP: prefetch. All-to-all: overlap the exchange with the dense part.

    References
    ----------
    Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.
    Zhu et al., "Daydream", USENIX ATC 2020 (collectives 34 % slower than theory).
    """
    seen = job.exposure
    if seen is None or seen.transfer < LEAST_SHARE:
        return None
    needed = float(np.mean([needed_share(facts) for facts in job.ranks]))
    low, hidden = (share * needed for share in seen.overlap_gain)
    half, high = seen.compression_gain(2.0) * needed, seen.transfer * needed
    gathered = high * seen.kinds.get("all_gather", 0.0) / max(sum(seen.kinds.values()), 1e-12)
    expected = max(hidden, half * FROM_FEWER_BYTES) if seen.is_waiting_known else hidden
    return Proof(
        headline=_make_headline(seen, high),
        predicted=predict_removal(
            low, high, "P7: exchanges overlap with the backward pass", expected
        ),
        evidence=_communication_evidence(seen),
        confidence=0.9 if seen.is_waiting_known else 0.75,
        facts=DistributedFacts(
            calls=seen.calls,
            mean_bytes=seen.mean_bytes,
            median_s=seen.median_s,
            kinds=seen.kinds,
            hidden=seen.hidden_ratio >= LITTLE_HIDDEN,
            on_cpu=job.lead_rank.on_cpu,
            nodes=len({facts.timeline.hostname for facts in job.ranks}),
            compressed=predict_removal(
                0.0, half, "P7 with half of the bytes", half * FROM_FEWER_BYTES
            ),
            gathered_once=predict_removal(
                0.0, gathered, "P7 without the second of two gathers", gathered / 2.0
            ),
            fewer=predict_removal(
                0.0, half, "P7 with half of the exchanges", half * FROM_FEWER_BYTES
            ),
        ),
    )


def _make_headline(seen: Exposure, held: float) -> str:
    kind = max(seen.kinds, key=lambda name: seen.kinds[name]).replace("_", "-")
    ending, verb, whose = ("", "costs", "its") if round(seen.calls) == 1 else ("s", "cost", "their")
    mostly = "mostly " if len(seen.kinds) > 1 else ""
    hidden = "none" if seen.hidden_ratio < LITTLE_HIDDEN else f"{seen.hidden_ratio:.0%}"
    waiting = "" if seen.is_waiting_known else ", including waits for other ranks"
    return (
        f"{seen.calls:.3g} collective{ending} per step ({mostly}{kind}) {verb} {held:.0%} of the "
        f"step{waiting}; {hidden} of {whose} time overlaps with computation"
    )


def _communication_evidence(seen: Exposure) -> tuple[Evidence, ...]:
    rows: list[tuple[str, float, str, str]] = [
        ("exposed communication, share of step", seen.exposed, "ratio", "attribution"),
        ("of it, with the next work already queued", seen.held, "ratio", "collectives"),
        ("hidden share of collectives", seen.hidden_ratio, "ratio", "collectives"),
        ("collectives per step", seen.calls, "1", "collectives"),
        ("median time in a collective", seen.median_s, "s", "collectives"),
    ]
    if seen.waiting > 0.0:
        rows.append(("of it, waiting for late ranks", seen.waiting, "ratio", "matched ranks"))
    if seen.stalled > 0.0:
        rows.append(("of it, beyond the usual transfer time", seen.stalled, "ratio", "collectives"))
    if seen.mean_bytes is not None:
        rows.append(("mean size of a collective", seen.mean_bytes, "bytes", "collectives"))
    return tuple(
        make_evidence(name, value, unit, source=source) for name, value, unit, source in rows
    )
