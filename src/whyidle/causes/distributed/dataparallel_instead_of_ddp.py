"""One process drives several devices with DataParallel."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.intervals import union_of
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.roles import Role

LEAST_SHARE = 0.01
"""share of the step that must be won before it is worth a word"""


@cause(
    "One process drives several GPUs with DataParallel",
    bucket="host",
    needs=("device_events", "host_ops", "steps"),
)
def dataparallel_instead_of_ddp(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``torch.nn.DataParallel``: one Python process copies the model to all GPUs in every step,
    scatters the batch, launches every replica's kernels, and gathers the results on the first GPU.

    Why it costs
    ------------
    All replicas are launched by threads that share one interpreter lock, so they run one after the
    other where the host is the bottleneck; parameters travel every step; the first GPU does more.

    How it is detected
    ------------------
    One recording holds kernels of several devices together with ``DataParallel.forward`` or its
    functions (``Broadcast``, ``Scatter``, ``Gather``). A process per GPU would take what the
    busiest GPU computes, plus everything that is neither computing nor launching; the difference to
    the step is lost. Half of that is the careful end: each process still launches its own
    replica.

    What looks alike
    ----------------
    Pipelines and model parallelism drive several devices from one process on purpose; they do not
    scatter and gather.

    What to do
    ----------
    ``torch.nn.parallel.DistributedDataParallel``, one process per GPU, started by torchrun.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Use DistributedDataParallel instead of DataParallel".
    """
    rows = facts.rows_of(Role.REPLICATION)
    busy = _busy_by_device(facts)
    if not len(rows) or len(busy) < 2:
        return None
    kept = sum(
        facts.bucket_share(b) for b in ("input", "transfer", "interruption", "communication")
    )
    lost = min(1.0 - max(busy.values()) - kept, facts.bucket_share("host"))
    if lost < LEAST_SHARE:
        return None
    return Proof(
        headline=f"DataParallel launches {len(busy)} GPUs from one process; the busiest computes "
        f"{max(busy.values()):.0%} of the step",
        low=lost * 0.5,
        high=lost,
        predicted=predict_removal(lost * 0.5, lost, "ideal step of one replica, all else kept"),
        evidence=(
            make_evidence(
                "devices with kernels in one process", len(busy), "1", source="device events"
            ),
            make_evidence(
                "useful time of the busiest device, share of step",
                max(busy.values()),
                "ratio",
                source="device events",
            ),
            make_evidence(
                "useful time of the idlest device, share of step",
                min(busy.values()),
                "ratio",
                source="device events",
            ),
            make_evidence(
                "scatter, broadcast and gather calls per step",
                len(rows) / facts.step_count,
                "1",
                source="host spans",
            ),
        ),
        where=tuple(place for place in [facts.places.place_of(int(rows[0]))] if place),
        confidence=0.85,
        facts=DistributedFacts(devices=len(busy)),
    )


def _busy_by_device(facts: Facts) -> dict[int, float]:
    """Share of the step with useful kernels, per device."""
    rows = facts.kernels[facts.group[facts.kernels] != "communication"]
    device = facts.device
    found = {}
    for number in np.unique(device.device[rows]):
        mine = rows[device.device[rows] == number]
        found[int(number)] = facts.share_of(union_of(device.start[mine], device.end[mine]))
    return found
