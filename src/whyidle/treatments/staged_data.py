"""Bring the data to a local disk."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.treatment import Plan, treatment


@treatment("remote-storage-fetch-stall", "page-cache-thrash", consent="none")
def staged_data(_proof: Proof) -> Plan | None:
    """A copy at hand, or a fixed part of it in memory. What fits must be known to people."""
    return Plan(
        summary="copy the dataset to a local disk or /dev/shm before training, or keep a fixed "
        "part of it in the dataset's own memory",
        risk="disk and memory fill; the copy grows stale",
        automatic=False,
    )
