"""What of an exchange costs most: whether fewer bytes or fewer gathers would shorten it."""

from __future__ import annotations

from typing import Final

from whyidle.model.proof_facts import DistributedFacts

LEAST_BYTES: Final = 1 << 20
LEAST_S: Final = 200e-6
"""collectives that are smaller or shorter are bound by latency, and fewer bytes save nothing"""

LEAST_GATHERED: Final = 0.3
"""least share of gathering in the cost of collectives: with as many bytes in each, two gathers and
one reduce-scatter are two thirds"""


def is_bound_by_bytes(facts: DistributedFacts, *kinds: str) -> bool:
    """Whether collectives of these kinds are most of the cost, and large."""
    size = facts.mean_bytes
    large = size >= LEAST_BYTES if size is not None else (facts.median_s or 0.0) >= LEAST_S
    return large and facts.kind_share(*kinds) >= 0.5


def is_gathering(facts: DistributedFacts) -> bool:
    """Whether gathering of sharded parameters is a good part of the cost."""
    return facts.kind_share("all_gather") >= LEAST_GATHERED
