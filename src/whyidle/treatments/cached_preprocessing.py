"""Prepare each sample once."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.treatment import Plan, treatment


@treatment("repeated-deterministic-preprocessing", consent="none")
def cached_preprocessing(_proof: Proof) -> Plan | None:
    """The result is the same in every epoch, so it can be kept. Random augmentation must stay
    behind the cache."""
    return Plan(
        summary="prepare the dataset once and keep the result (in memory, memory-mapped, or "
        "as a copy)",
        risk="prepared data can be larger and slower to read; it grows stale",
        automatic=False,
    )
