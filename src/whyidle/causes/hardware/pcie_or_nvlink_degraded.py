"""The link between host and device is far slower than the board's."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.copies import copies, link_gbs
from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import remove
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence

DEGRADED = 0.25
"""share of the class rate below which sharing a switch (a half) and traffic of other devices or
slower host memory (another half) no longer explain it"""
ENOUGH = 3
"""large pinned copies that must agree"""
LARGE_BYTES = 4_000_000


@cause(
    "The link to the device is slower than its class",
    bucket="transfer",
    needs=("device_events", "gpu_model", "steps"),
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
    half the, rate would save.

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
    rate, known = link_gbs(facts.timeline.info.name)
    found = copies(facts, "pinned")
    large = found.sizes >= LARGE_BYTES
    if not known or large.sum() < ENOUGH or found.exposed <= 0.0:
        return None
    seen = float(np.median(found.sizes[large] / found.seconds[large])) / 1e9
    if seen > DEGRADED * rate:
        return None
    link = _link(facts)
    high = found.exposed * (1.0 - seen / rate)
    low = found.exposed * (1.0 - 2 * seen / rate)
    return Proof(
        headline=f"Pinned copies reach {seen:.2g} GB/s where {rate:.0f} are usual",
        low=low,
        high=high,
        predicted=remove(low, high, "bytes x (1/seen - 1/class) x exposed share"),
        evidence=(
            measured("rate of large pinned copies", seen * 1e9, "B/s", samples=int(large.sum())),
            measured("usual rate of the board", rate * 1e9, "B/s", source="PCIe generation"),
            measured("copies with nothing beside them, share of step", found.exposed, "ratio"),
            *link,
        ),
        confidence=0.9 if link else 0.6,
    )


def _link(facts: Facts) -> tuple[Evidence, ...]:
    """The link's lanes and generation while it was watched, where they are below what card and slot
    allow. Idle links lower their generation, so its highest read counts."""
    outside = facts.outside
    told: list[Evidence] = []
    if outside is None:
        return ()
    for gpu in outside.own_gpus:
        for signal in ("pcie_lanes", "pcie_generation"):
            now, best = outside.most(signal, gpu), outside.most(f"{signal}_max", gpu)
            if now and best and now < best:
                name = signal.replace("_", " ").replace("pcie", "PCIe")
                told.append(measured(f"{name} under load, of {best:.0f}", now, None, source="NVML"))
    return tuple(told)
