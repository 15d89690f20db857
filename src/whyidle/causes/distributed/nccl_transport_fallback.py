"""Collectives take a slow path between devices."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.roles import Role

LARGE_BYTES = 16 << 20
"""a collective of at least this size is bound by bandwidth, not latency"""
SLOW_BYTES_PER_S = 5e9
"""bus bandwidth inside one machine below which something is wrong: half of PCIe 3.0 x16, and what
was measured over sockets (areal-project/AReaL#639: 5 GB/s against 25 GB/s)"""
EXPECTED_BYTES_PER_S = 10e9
"""the rate between GPUs on PCIe 3.0 x16, the slowest regular path"""
LEAST_SAMPLES = 5
_FACTOR = {"all_reduce": 2.0, "reduce_scatter": 1.0}
"""bytes over each link for one byte of message, times (n - 1) / n (nccl-tests, PERFORMANCE.md)"""


@cause(
    "Collectives take a slow path between devices",
    bucket="communication",
    needs=("device_events", "steps"),
    scope="job",
)
def nccl_transport_fallback(job: Job) -> Proof | None:
    """What it means
    ----------------
    Data between GPUs goes through sockets or host memory although a faster path exists. Or gloo
    exchanges GPU tensors, which it copies to the host and back.

    Why it costs
    ------------
    Sockets carry a few gigabytes per second, PCIe 10 to 50, NVLink hundreds.

    How it is detected
    ------------------
    Gloo: the device is idle during ``gloo:`` collectives for at least 1 % of the step. NCCL: all
    ranks were recorded on one machine, and at least five collectives of at least 16 MiB have a
    median bus bandwidth below 5 GB/s. The bandwidth is that of the rank with the shortest time,
    which does not wait. The loss is the exposed transfer beyond the time at 10 GB/s.

    What looks alike
    ----------------
    Small messages never reach the bandwidth of a link. Waiting for a late rank does not count.
    Between machines the usual bandwidth is unknown, so nothing is reported.

    What to do
    ----------
    Run once with ``NCCL_DEBUG=INFO`` and call ``whyidle explain OUTPUT``, which shows the
    transports and why a slower one is used. Unset ``NCCL_P2P_DISABLE``, ``NCCL_SHM_DISABLE`` and
    ``NCCL_IB_DISABLE``, give containers ``--ipc=host``, set the right ``NCCL_SOCKET_IFNAME``, and
    use the nccl backend for GPU tensors.

    References
    ----------
    NVIDIA nccl-tests, PERFORMANCE.md (bus bandwidth). NCCL user guide, environment variables.
    """
    return _prove_gloo(job) or _slow_bus(job)


def _prove_gloo(job: Job) -> Proof | None:
    facts = job.lead_rank
    host = facts.timeline.host
    rows = facts.rows_of(Role.HOST_EXCHANGE)
    if facts.timeline.backend not in (None, "gloo") or not len(rows):
        return None
    blocked = facts.bucket_share("collective_wait")
    if blocked < LEAST_SHARE:
        return None
    took = float((host.end[rows] - host.start[rows]).sum()) / 1e9 / facts.step_count
    return Proof(
        headline="Gloo exchanges GPU tensors over the host, instead of NCCL",
        predicted=predict_removal(
            blocked * 0.5, blocked, "P7 with NCCL's bandwidth", blocked * 0.8
        ),
        evidence=(
            make_evidence("gloo time per step", took, "s", samples=len(rows), source="host spans"),
            make_evidence("device idle during it, share of step", blocked, "ratio"),
        ),
        confidence=0.85,
        facts=DistributedFacts(backend="gloo"),
    )


def _slow_bus(job: Job) -> Proof | None:
    seen, meetings, ranks = job.exposure, job.meetings, len(job.ranks)
    hosts = {facts.timeline.hostname for facts in job.ranks}
    worlds = {facts.timeline.world_size for facts in job.ranks}
    if (
        seen is None
        or not seen.is_waiting_known
        or worlds != {ranks}
        or len(hosts) != 1
        or None in hosts
    ):
        return None
    factor = np.array([_FACTOR.get(str(kind), 0.0) for kind in meetings.kind])
    large = (meetings.bytes >= LARGE_BYTES) & (factor > 0) & meetings.present.all(axis=1)
    if large.sum() < LEAST_SAMPLES:
        return None
    moved = meetings.bytes[large] * factor[large] * (ranks - 1) / ranks
    rate = moved / np.maximum(meetings.transfer_ns[large] / 1e9, 1e-9)
    reached = float(np.median(rate))
    if reached >= SLOW_BYTES_PER_S:
        return None
    share = float(meetings.transfer_ns[large].sum() / max(meetings.transfer_ns.sum(), 1))
    lost = seen.transfer * share * (1.0 - reached / EXPECTED_BYTES_PER_S)
    if lost < LEAST_SHARE:
        return None
    return Proof(
        headline=f"Large collectives inside one machine reach only {reached / 1e9:.2g} GB/s",
        predicted=predict_removal(lost * 0.7, lost, "P7 at the bandwidth of PCIe 3.0", lost * 0.9),
        evidence=(
            make_evidence("median bus bandwidth", reached, "bytes/s", samples=int(large.sum())),
            make_evidence("exposed transfer, share of step", seen.transfer, "ratio"),
        ),
        confidence=0.8,
        facts=DistributedFacts(backend="nccl"),
    )
