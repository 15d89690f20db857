"""Save checkpoints less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("sync-checkpoint", consent="none")
def rarer_checkpoint(proof: Proof) -> Plan | None:
    """As often as loses the least time, with a failure a day: the square root of twice the time of
    a checkpoint times that between failures. Nothing that is learned depends on it, but a job that
    is killed repeats more: so it is left to people. Declines where the recording shows one
    checkpoint only, or they are as rare."""
    apart = proof.facts.get("interval_s")
    if apart is None:
        return None
    now_s, seconds = apart
    factor = max(2, round(seconds / now_s))
    return Plan(
        summary=f"save every {_lasting(seconds)} instead of every {_lasting(now_s)}: "
        "with a failure a day, that loses the least time",
        edits=(Edit(knob="checkpoint.interval_factor", value=factor, was=1),),
        predicted=proof.facts.get("rarer"),
        risk=f"a job that is killed repeats up to {_lasting(seconds)} of work",
        automatic=False,
    )


def _lasting(seconds: float) -> str:
    """As people say it."""
    if seconds >= 120.0:
        return f"{seconds / 60.0:.0f} minutes"
    return f"{seconds:.0f} seconds" if seconds >= 2.0 else f"{seconds:.2g} seconds"
