"""Lift the limit."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("power-or-clock-cap", consent="none")
def lifted_limits(_proof: Proof) -> Proposal | None:
    """Limits are set by administrators, sometimes on purpose; a process may not change
    them."""
    return Proposal(
        summary="ask the administrator whether the limit is meant (nvidia-smi -q -d POWER,CLOCK);"
        " nvidia-smi -pl and -rac lift it",
        risk="more power and heat",
        automatic=False,
    )
