"""Read numbers where they are shown, not in every step."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts


@fix("per-step-host-sync", consent="none")
def defer_scalar_reads(proof: Proof) -> Proposal:
    """Sum up losses and metrics on the device (``total += loss.detach()``), and read them where
    they are shown or every k-th step; show a progress bar its number every k-th step. Advice: only
    the author knows where the program needs the number at once."""
    facts = proof.get_facts(HostFacts)
    every = facts.every
    scalar = facts.scalar
    return Proposal(
        summary="accumulate losses and metrics on the device (`total += loss.detach()`), and read "
        f"them where they are shown, or every {every}th step, for a progress bar as well; "
        "torch.where instead of boolean masks; no torch.cuda.synchronize() in the loop",
        edits=(Edit(knob="log.deferred", value=True, was=False),) if scalar else (),
        risk="the device's own errors are told where a number is read, which is later",
        automatic=False,
    )
