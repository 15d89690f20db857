"""The link between host and device is far slower than the board's."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.device.copies import find_copies, link_gbs
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.telemetry_window import TelemetryWindow
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence

DEGRADED = 0.25
"""share of the usual rate below which a shared switch (half the rate) and slow host memory or other
traffic (half again) no longer explain it"""
ENOUGH = 3
"""large pinned copies that must agree"""
LARGE_BYTES = 4_000_000


@cause(
    "The link to the device is slower than its class",
    bucket="transfer",
    needs=("device_events", "gpu_model", "steps"),
    watched=("gpu_telemetry", "own_process"),
)
def pcie_or_nvlink_degraded(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Large copies from pinned memory reach less than a quarter of the board's usual rate: the link
    has fewer lanes or an older generation, or crosses to another socket.

    Why it costs
    ------------
    Every exposed copy takes several times as long.

    How it is detected
    ------------------
    The median rate of at least three pinned copies of at least 4 MB is compared with the usual rate
    of the board's PCIe generation. The gain is the exposed time saved at the full rate (lower
    bound: at half of it). In a watched job, NVML also shows whether the link is below what card and
    slot allow. Without recorded copies, such a link and its traffic suffice (lower bound: zero).

    What looks alike
    ----------------
    Pageable and small copies do not count. Two devices behind one switch reach half the rate each.

    What to do
    ----------
    Check the link's width and generation under load (``nvidia-smi -q``). Bind the process to the
    device's NUMA node. Have the board reseated.

    References
    ----------
    PCI-SIG rates of generations 3 to 5; NVIDIA, ``nvidia-smi`` documentation.
    """
    if not len(facts.device):
        return _prove_by_traffic(facts)
    rate, known = link_gbs(facts.timeline.info.name)
    copies = find_copies(facts, "pinned")
    large = copies.sizes >= LARGE_BYTES
    if not known or large.sum() < ENOUGH or copies.exposed <= 0.0:
        return None
    reached = float(np.median(copies.sizes[large] / copies.seconds[large])) / 1e9
    if reached > DEGRADED * rate:
        return None
    link = _link_evidence(facts)
    high = copies.exposed * (1.0 - reached / rate)
    low = copies.exposed * (1.0 - 2 * reached / rate)
    return Proof(
        headline=f"Pinned copies reach {reached:.2g} GB/s, where {rate:.0f} GB/s are usual",
        predicted=predict_removal(low, high, "bytes x (1/rate - 1/class) x exposed share"),
        evidence=(
            make_evidence("rate of pinned copies", reached * 1e9, "B/s", samples=int(large.sum())),
            make_evidence("usual rate of the board", rate * 1e9, "B/s", source="PCIe generation"),
            make_evidence("exposed copies, share of step", copies.exposed, "ratio"),
            *link,
        ),
        confidence=0.9 if link else 0.6,
    )


def _prove_by_traffic(facts: Facts) -> Proof | None:
    """Prove it for a watched job without recorded copies, by traffic on a degraded link."""
    outside = facts.telemetry
    if outside is None:
        return None
    slowed = {gpu: _slowdown_share(outside, gpu) for gpu in outside.own_gpus}
    gpu = max(slowed, key=lambda name: slowed[name][0], default="")
    if not gpu or slowed[gpu][0] < LEAST_SHARE:
        return None
    high, rate = min(slowed[gpu][0], facts.bucket_share("unknown")), slowed[gpu][1]
    return Proof(
        headline="The link to the GPU runs below what card and slot allow, and is in use",
        predicted=predict_removal(0.0, high, "bytes x (1/now - 1/best), if nothing hides them"),
        evidence=(
            make_evidence("traffic over the link", rate, "B/s", source="NVML"),
            *_link_evidence(facts),
        ),
        confidence=0.6,
        bucket="unknown",
    )


def _slowdown_share(outside: TelemetryWindow, gpu: str) -> tuple[float, float]:
    """Additional time per second compared with the best link, and the rate (B/s)."""
    names = ("lanes", "generation")
    now = [outside.under_load(f"pcie_{name}", gpu) for name in names]
    best = [outside.highest_value(f"pcie_{name}_max", gpu) for name in names]
    if None in (*now, *best):
        return 0.0, 0.0
    present, possible = (_link_rate(*map(int, map(float, two))) for two in (now, best))  # type: ignore[arg-type]
    each = [
        outside.counter_rate(f"pcie_{way}_bytes", gpu)
        or outside.mean_value(f"pcie_{way}_bytes_per_s", gpu)
        or 0.0
        for way in ("sent", "received")
    ]
    return max(each) * max(0.0, 1.0 / present - 1.0 / possible), max(each)


def _link_rate(lanes: int, generation: int) -> float:
    """Bytes per second each way: 0.25 GB/s per lane, doubled in each later generation."""
    return max(lanes, 1) * 0.25e9 * 2.0 ** (max(generation, 1) - 1)


def _link_evidence(facts: Facts) -> tuple[Evidence, ...]:
    """Lanes and generation below what card and slot allow. Idle links lower their generation, so
    the highest read under load counts."""
    outside = facts.telemetry
    if outside is None:
        return ()
    evidence = []
    for gpu in outside.own_gpus:
        for signal in ("pcie_lanes", "pcie_generation"):
            now, best = outside.under_load(signal, gpu), outside.highest_value(f"{signal}_max", gpu)
            if now and best and now < best:
                name = signal.replace("_", " ").replace("pcie", "PCIe")
                name = f"{name} under load, of {best:.0f}"
                evidence.append(make_evidence(name, now, None, source="NVML"))
    return tuple(evidence)
