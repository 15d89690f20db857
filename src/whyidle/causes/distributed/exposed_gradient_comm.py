"""Collectives run while no useful work does."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.exposed_communication import Exposure
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.gradient_exchanges import copy_shares, needed_share, optimizer_updates
from whyidle.analysis.job import Job
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.proof_facts import DistributedFacts

FROM_FEWER_BYTES = 0.6
"""expected part of what half of the bytes would save: latency stays, or what else comes between"""
FROM_FEWER_EXCHANGES = 0.9
"""the same of half of the exchanges, where exchanging is the trouble: what is not sent has no
latency either, but fewer backward passes are left to hide behind"""
LEAST_SHARE = 0.01
"""exposed share of the step below which communication is not worth a word"""
WORTH = 0.03
"""share of the step that fewer exchanges must win before what they spare beside is added"""
LITTLE_HIDDEN = 0.05
"""overlap below which none is attempted: DDP hides most of its buckets, this is chance"""


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
    run while the device has nothing useful beside them.

    Why it costs
    ------------
    A kernel that moves data or spins until the others come keeps the device "busy", but no step
    comes nearer to its end. Data can travel while the backward pass still computes.

    How it is detected
    ------------------
    Exposed communication is time with a collective in flight and no useful kernel, and short gaps
    that end with a collective. With several ranks, the shortest of each matched collective is its
    transfer; what others have beyond it is waiting for a late rank, which is another cause and not
    counted here; nor is what a transfer takes beyond one and a half times its median over the
    steps: its data is no more than in other steps, so something else came between. With one rank,
    transfer and waiting cannot be told apart: the careful end takes only what is as long in every
    step. Exposed time counts as lost only where the next kernel had been launched already: where
    the host is late as well, nothing is won. The gain is P7: what has
    room beside the backward pass (two thirds of the compute) can be hidden; half of it on
    collectives slowed down by a third is the careful end, all transfer the hopeful one. The last
    bucket of gradients is complete only when the backward pass is, so it stays. Of exchanges that
    accumulation does not need only the needed part counts. On a watched CPU, fewer exchanges also
    spare copies of gradients into buckets and back, and steps of the optimizer.

    What looks alike
    ----------------
    The rank with the longest collectives is not the one at fault: it waits for a late one (see
    ``rank-workload-imbalance``, ``late-rank``). One all-reduce per micro-batch is
    ``allreduce-every-microstep``; a slow path between devices ``nccl-transport-fallback``.

    What to do
    ----------
    Many small collectives: let DistributedDataParallel send them in buckets. Few large ones that
    are not hidden: send fewer bytes (bf16 compression), or compute more per exchange (larger
    batch, accumulation). FSDP: prefetch. All-to-all: pipeline the exchange with the dense part.

    References
    ----------
    Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.
    Zhu et al., "Daydream", USENIX ATC 2020 (collectives 34 % slower than theory).
    """
    seen = job.exposure
    if seen is None or seen.transfer < LEAST_SHARE:
        return None
    kept = float(np.mean([needed_share(facts) for facts in job.ranks]))
    low, hidden = (share * kept for share in seen.overlap_gain)
    half, high = seen.compression_gain(2.0) * kept, seen.transfer * kept
    expected = max(hidden, half * FROM_FEWER_BYTES) if seen.told else hidden
    return Proof(
        headline=_make_headline(seen, high),
        low=low,
        high=high,
        predicted=predict_removal(
            low, high, "P7: exchanges as far beside the backward pass as that is long", expected
        ),
        evidence=_communication_evidence(seen),
        confidence=0.9 if seen.told else 0.75,
        facts=DistributedFacts(
            calls=seen.calls,
            mean_bytes=seen.mean_bytes,
            median_s=seen.median_s,
            kinds=seen.kinds,
            hidden=seen.hidden_ratio >= LITTLE_HIDDEN,
            on_cpu=job.lead_rank.on_cpu,
            compressed=predict_removal(
                0.0, half, "P7 with half of the bytes", half * FROM_FEWER_BYTES
            ),
            fewer=_predict_fewer_exchanges(job, half, kept),
        ),
    )


def _predict_fewer_exchanges(job: Job, half: float, kept: float) -> Predicted:
    """P7 with half of the exchanges of gradients, of which ``kept`` is needed, on a CPU: copies of
    gradients and the optimizer come half as often, too. These make no finding by themselves."""
    likely, high = half * FROM_FEWER_BYTES, half
    if likely >= WORTH:
        copied = np.mean([copy_shares(facts) for facts in job.ranks], axis=0) * kept / 2.0
        updated = (
            float(np.mean([facts.share_of(optimizer_updates(facts)) for facts in job.ranks])) / 2.0
        )
        likely = half * FROM_FEWER_EXCHANGES + copied[1] + updated
        high += copied[2] + updated
    high = min(float(high), 0.5)  # the rest of a batch is as long as ever
    return predict_removal(0.0, high, "P7 with half of the exchanges", min(float(likely), high))


def _make_headline(seen: Exposure, held: float) -> str:
    kind = max(seen.kinds, key=lambda name: seen.kinds[name]).replace("_", "-")
    count = f"{seen.calls:.3g} collective{'' if round(seen.calls) == 1 else 's'} per step"
    mostly = "mostly " if len(seen.kinds) > 1 else ""
    hidden = "nothing" if seen.hidden_ratio < LITTLE_HIDDEN else f"{seen.hidden_ratio:.0%}"
    what = "" if seen.told else ", waiting for other ranks included"
    return (
        f"{count} ({mostly}{kind}), {hidden} of their time hidden, hold up {held:.0%} of "
        f"the step{what}"
    )


def _communication_evidence(seen: Exposure) -> tuple[Evidence, ...]:
    source = "collectives"
    told = [
        make_evidence("exposed communication, share of step", seen.exposed, "ratio"),
        make_evidence(
            "of it, with the next work already queued", seen.held, "ratio", source=source
        ),
        make_evidence(
            "collective time beside useful work", seen.hidden_ratio, "ratio", source=source
        ),
        make_evidence("collectives per step", seen.calls, "1", source=source),
        make_evidence("median time in a collective", seen.median_s, "s", source=source),
    ]
    if seen.waiting > 0.0:
        told.append(
            make_evidence(
                "of it, waiting for late ranks", seen.waiting, "ratio", source="matched ranks"
            )
        )
    if seen.stalled > 0.0:
        told.append(
            make_evidence(
                "of it, beyond what they usually take", seen.stalled, "ratio", source=source
            )
        )
    if seen.mean_bytes is not None:
        told.append(
            make_evidence("mean size of a collective", seen.mean_bytes, "bytes", source=source)
        )
    return tuple(told)
