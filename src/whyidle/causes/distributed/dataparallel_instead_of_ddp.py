"""One process drives several devices with DataParallel."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.roles import Role


@cause(
    "One process drives several GPUs with DataParallel",
    bucket="host",
    needs=("device_events", "host_ops", "steps"),
)
def dataparallel_instead_of_ddp(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``torch.nn.DataParallel``: in every step, one process copies the model to all GPUs, scatters the
    batch, launches the kernels of every replica, and gathers the results on the first GPU.

    Why it costs
    ------------
    The threads that launch the replicas share the global interpreter lock, so they run one after
    the other if the host is the bottleneck. The first GPU does more work than the others.

    How it is detected
    ------------------
    One recording has kernels of several devices and ``DataParallel.forward`` or its functions
    (``Broadcast``, ``Scatter``, ``Gather``). With one process per GPU, a step would take the
    compute time of the busiest GPU plus all time that is neither computing nor launching. The
    difference to the present step is the upper bound. Half of it is the lower bound, because each
    process still launches its own replica.

    What looks alike
    ----------------
    Pipeline and model parallelism also use several devices in one process, but do not scatter and
    gather.

    What to do
    ----------
    Use ``torch.nn.parallel.DistributedDataParallel``, one process per GPU, started by torchrun.

    References
    ----------
    PyTorch, Performance Tuning Guide, "Use DistributedDataParallel instead of DataParallel".
    """
    rows = facts.rows_of(Role.REPLICATION)
    busy = _busy_by_device(facts)
    if not len(rows) or len(busy) < 2:
        return None
    highest, lowest = max(busy.values()), min(busy.values())
    others = sum(map(facts.bucket_share, ("input", "transfer", "interruption", "communication")))
    lost = min(1.0 - highest - others, facts.bucket_share("host"))
    if lost < LEAST_SHARE:
        return None
    return Proof(
        headline=f"DataParallel launches {len(busy)} GPUs from one process; the busiest computes "
        f"{highest:.0%} of the step",
        predicted=predict_removal(
            lost * 0.5, lost, "ideal step of one replica, all else unchanged"
        ),
        evidence=(
            make_evidence("devices of the process", len(busy), "1", source="device events"),
            make_evidence("busiest device, share of step", highest, "ratio", source="device"),
            make_evidence("idlest device, share of step", lowest, "ratio", source="device"),
            make_evidence("scatter and gather calls per step", len(rows) / facts.step_count, "1"),
        ),
        where=tuple(place for place in [facts.places.place_of(int(rows[0]))] if place),
        confidence=0.85,
        facts=DistributedFacts(devices=len(busy)),
    )


def _busy_by_device(facts: Facts) -> dict[int, float]:
    rows = facts.kernels[facts.group[facts.kernels] != "communication"]
    device = facts.device
    shares = {}
    for number in np.unique(device.device[rows]):
        mine = rows[device.device[rows] == number]
        shares[int(number)] = facts.share_of(union_of(device.start[mine], device.end[mine]))
    return shares
