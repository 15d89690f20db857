"""Save checkpoints less often."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("sync-checkpoint", consent="none")
def rarer_checkpoint(proof: Proof) -> Proposal | None:
    """As often as loses the least time, with a failure a day: the square root of twice the time of
    a checkpoint times that between failures. Nothing that is learned depends on it, but a job that
    is killed repeats more: so it is left to people. A job that lasts no longer than that saves at
    its end only. Declines where the recording shows one checkpoint only, or they are as rare."""
    facts = proof.get_facts(InterruptionFacts)
    apart = facts.interval_s
    if apart is None:
        return None
    now_s, seconds = apart
    factor = max(2, round(seconds / now_s))
    return Proposal(
        summary=_summary(now_s, seconds, facts.seen_s),
        edits=(Edit(knob="checkpoint.interval_factor", value=factor, was=1),),
        predicted=facts.rarer,
        risk=f"a job that is killed repeats up to {_lasting(seconds)} of work",
        automatic=False,
    )


def _summary(now_s: float, seconds: float, seen_s: float | None) -> str:
    """For a job that was seen to its end, or for less than the time between two checkpoints."""
    every = f"every {_lasting(seconds)}"
    if seen_s is not None and seen_s < seconds:
        every = (
            f"at the end only, if the job lasts less than {_lasting(seconds)} (it was seen for "
            f"{_lasting(seen_s)}), else {every},"
        )
    return (
        f"save {every} instead of every {_lasting(now_s)}: with a failure a day, that loses the "
        "least time"
    )


def _lasting(seconds: float) -> str:
    """As people say it."""
    if seconds >= 120.0:
        return f"{seconds / 60.0:.0f} minutes"
    return f"{seconds:.0f} seconds" if seconds >= 2.0 else f"{seconds:.2g} seconds"
