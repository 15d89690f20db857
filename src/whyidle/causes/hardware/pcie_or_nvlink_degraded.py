"""The link between host and device is far slower than the board's."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.copies import find_copies, link_gbs
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import predict_removal
from whyidle.analysis.telemetry_window import TelemetryWindow
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

DEGRADED = 0.25
"""share of the class rate below which sharing a switch (a half) and traffic of other devices or
slower host memory (another half) no longer explain it"""
ENOUGH = 3
"""large pinned copies that must agree"""
LARGE_BYTES = 4_000_000
LEAST_SHARE = 0.01


@cause(
    "The link to the device is slower than its class",
    bucket="transfer",
    needs=("device_events", "gpu_model", "steps"),
    watched=("gpu_telemetry", "own_process"),
)
def pcie_or_nvlink_degraded(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Large copies from pinned memory run at less than a quarter of what such a board reaches: the
    link has come up with fewer lanes or an older generation, or crosses to another socket.

    Why it costs
    ------------
    Every exposed copy takes several times as long.

    How it is detected
    ------------------
    The median rate of at least three pinned copies of 4 MB and more, against the class of the
    board's PCIe generation. Where the job was watched, lanes or generation below what card and slot
    allow make it sure. The gain is the exposed time of these copies times what the full, or
    half the, rate would save. Where no copies were recorded, such a link and its traffic tell: at
    best all the time that the bytes take longer on it, carefully nothing, as they may be hidden.

    What looks alike
    ----------------
    Pageable copies are slow by nature and do not count, nor do small ones. Two devices behind one
    switch reach half each.

    What to do
    ----------
    Look at the link's present width and generation under load (``nvidia-smi -q``), bind the
    process to the device's NUMA node, then have the board reseated.

    References
    ----------
    PCI-SIG rates of generations 3 to 5; NVIDIA, ``nvidia-smi`` documentation.
    """
    if not len(facts.device):
        return _by_traffic(facts)
    rate, known = link_gbs(facts.timeline.info.name)
    found = find_copies(facts, "pinned")
    large = found.sizes >= LARGE_BYTES
    if not known or large.sum() < ENOUGH or found.exposed <= 0.0:
        return None
    seen = float(np.median(found.sizes[large] / found.seconds[large])) / 1e9
    if seen > DEGRADED * rate:
        return None
    link = _link_evidence(facts)
    high = found.exposed * (1.0 - seen / rate)
    low = found.exposed * (1.0 - 2 * seen / rate)
    return Proof(
        headline=f"Pinned copies reach {seen:.2g} GB/s where {rate:.0f} are usual",
        low=low,
        high=high,
        predicted=predict_removal(low, high, "bytes x (1/seen - 1/class) x exposed share"),
        evidence=(
            make_evidence(
                "rate of large pinned copies", seen * 1e9, "B/s", samples=int(large.sum())
            ),
            make_evidence("usual rate of the board", rate * 1e9, "B/s", source="PCIe generation"),
            make_evidence("copies with nothing beside them, share of step", found.exposed, "ratio"),
            *link,
        ),
        confidence=0.9 if link else 0.6,
    )


def _by_traffic(facts: Facts) -> Proof | None:
    """A watched job without recorded copies: lanes or generation below the best, and traffic."""
    outside = facts.telemetry
    if outside is None:
        return None
    slowed = {gpu: _slowdown_share(outside, gpu) for gpu in outside.own_gpus}
    gpu = max(slowed, key=lambda name: slowed[name][0], default="")
    if not gpu or slowed[gpu][0] < LEAST_SHARE:
        return None
    high, rate = min(slowed[gpu][0], facts.bucket_share("unknown")), slowed[gpu][1]
    return Proof(
        headline="The link to the GPU has come up below what card and slot allow, and is in use",
        low=0.0,
        high=high,
        predicted=predict_removal(0.0, high, "bytes x (1/now - 1/best), if nothing hides them"),
        evidence=(
            make_evidence("traffic over the link", rate, "B/s", source="NVML"),
            *_link_evidence(facts),
        ),
        confidence=0.6,
        bucket="unknown",
    )


def _slowdown_share(outside: TelemetryWindow, gpu: str) -> tuple[float, float]:
    """Time that the bytes take longer than on the best link, per second, and their rate (B/s)."""
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
    """Bytes per second each way: 0.25 GB/s a lane in the first generation, and about twice that in
    each later one."""
    return max(lanes, 1) * 0.25e9 * 2.0 ** (max(generation, 1) - 1)


def _link_evidence(facts: Facts) -> tuple[Evidence, ...]:
    """The link's lanes and generation while it was watched, where they are below what card and slot
    allow. Idle links lower their generation, so its highest read under load counts."""
    outside = facts.telemetry
    told: list[Evidence] = []
    if outside is None:
        return ()
    for gpu in outside.own_gpus:
        for signal in ("pcie_lanes", "pcie_generation"):
            now, best = outside.under_load(signal, gpu), outside.highest_value(f"{signal}_max", gpu)
            if now and best and now < best:
                name = signal.replace("_", " ").replace("pcie", "PCIe")
                told.append(
                    make_evidence(f"{name} under load, of {best:.0f}", now, None, source="NVML")
                )
    return tuple(told)
